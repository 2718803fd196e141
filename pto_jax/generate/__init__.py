"""Random legal programs and inputs."""
