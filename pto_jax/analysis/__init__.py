"""Facts of programs before execution: types, constants, addresses, data flow."""
