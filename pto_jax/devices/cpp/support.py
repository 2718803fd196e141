"""C++ that every emitted case starts with: includes, helpers, files, and the comparison of results."""

from . import writer

_INCLUDES = (
    "<cmath> <cstdint> <cstdio> <cstdlib> <cstring> <filesystem> <fstream> <iterator> <limits> <string> "
    "<tuple> <type_traits> <vector>"
)
_HEADERS = """\
#if defined(__clang__) && defined(__CPU_SIM)
// Clang has the types and says nothing about them to the C++ library: limits, which the simulator pads and
// saturates with, and the macro without which it takes bfloat16_t for another name of half.
template <typename T, int EXPONENT, int MANTISSA>
struct Limits : std::numeric_limits<float> {
    static constexpr int digits = MANTISSA + 1;
    static constexpr T value(uint32_t word) { return __builtin_bit_cast(T, static_cast<uint16_t>(word)); }
    static constexpr uint32_t INFINITE = ((1u << EXPONENT) - 1) << MANTISSA;
    static constexpr T min() { return value(1u << MANTISSA); }
    static constexpr T max() { return value(INFINITE - 1); }
    static constexpr T lowest() { return value(0x8000u | (INFINITE - 1)); }
    static constexpr T epsilon() { return value(((1u << (EXPONENT - 1)) - 1 - MANTISSA) << MANTISSA); }
    static constexpr T infinity() { return value(INFINITE); }
    static constexpr T quiet_NaN() { return value(INFINITE | 1u << (MANTISSA - 1)); }
    static constexpr T denorm_min() { return value(1); }
};
namespace std {
template <>
struct numeric_limits<_Float16> : Limits<_Float16, 5, 10> {};
template <>
struct numeric_limits<__bf16> : Limits<__bf16, 8, 7> {};
} // namespace std
#if !defined(__STDCPP_BFLOAT16_T__)
#define __STDCPP_BFLOAT16_T__ 1
#include <pto/common/type.hpp>
#undef __STDCPP_BFLOAT16_T__
#endif
#endif
#if defined(__CPU_SIM) && defined(__PTO_AUTO__)
// Initialises a tile in the vendor's compiler; the simulator's headers use it and do not define it.
#define __cce_tinit(data) (data)
#endif
#if defined(__clang__) && defined(__CPU_SIM) && __has_include(<pto/cpu/parallel.hpp>)
// Clang takes this hint for the permission to sum in any order; without it sums are in the written order.
#include <pto/cpu/parallel.hpp>
#undef PTO_CPU_VECTORIZE_LOOP
#define PTO_CPU_VECTORIZE_LOOP
#endif
#include <pto/pto-inst.hpp>

using namespace pto;
"""
_WINDOWS = """\
constexpr int ANY = DYNAMIC;
using AnyShape = Shape<ANY, ANY, ANY, ANY, ANY>;
using AnyStride = Stride<ANY, ANY, ANY, ANY, ANY>;
//! A window of global memory whose extents and strides are given when it is made.
template <typename T, Layout L = Layout::ND>
using View = GlobalTensor<T, AnyShape, AnyStride, L>;
template <typename V>
AICORE inline AnyShape shape(V& v)
{
    return AnyShape(v.GetShape(0), v.GetShape(1), v.GetShape(2), v.GetShape(3), v.GetShape(4));
}
template <typename V>
AICORE inline AnyStride stride(V& v)
{
    return AnyStride(v.GetStride(0), v.GetStride(1), v.GetStride(2), v.GetStride(3), v.GetStride(4));
}
#if defined(__CPU_SIM)
template <typename T>
constexpr std::size_t bytes()
{
    return static_cast<std::size_t>(T::Rows) * T::Cols * sizeof(typename T::DType) /
           (IsTwinType<typename T::DType>() ? 2 : 1);
}
#endif
//! A tile that nothing was written to holds zeros on the simulator and anything on hardware.
template <typename T>
AICORE inline void clear(T& tile)
{
#if defined(__CPU_SIM)
    std::memset(static_cast<void*>(tile.data()), 0, bytes<T>());
#endif
}
"""
_FILES = """\
static std::vector<char> read_file(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        std::fprintf(stderr, "%s: cannot be read\\n", path.c_str());
        std::exit(2);
    }
    return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}
static void write_file(const std::string& path, const void* data, std::size_t size)
{
    std::ofstream file(path, std::ios::binary);
    file.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    if (!file) {
        std::fprintf(stderr, "%s: cannot be written\\n", path.c_str());
        std::exit(2);
    }
}
template <typename T>
static T read_scalar(const std::string& path)
{
    const std::vector<char> raw = read_file(path);
    T value;
    std::memcpy(&value, raw.data(), sizeof(T));
    return value;
}
#if defined(__CPU_SIM)
template <typename T>
static void fill(T& tile, const std::string& path)
{
    const std::vector<char> raw = read_file(path);
    std::memcpy(static_cast<void*>(tile.data()), raw.data(), bytes<T>());
}
template <typename T>
static void save(T& tile, const std::string& path)
{
    const uint32_t valid[2] = {tile.GetValidRow(), tile.GetValidCol()};
    write_file(path + ".bin", tile.data(), bytes<T>());
    write_file(path + ".valid.bin", valid, sizeof(valid));
}
#endif
"""
_COMPARISON = """\
//! How the elements of a result compare. Words are NaN whose bits in `magnitude` are from `low` to `high`;
//! `ulp` is how many neighbouring values away a number may be.
struct Rule {
    unsigned bits;
    uint64_t magnitude, low, high, ulp;
};
static uint64_t element(const std::vector<char>& raw, std::size_t index, unsigned bits)
{
    if (bits == 4)
        return static_cast<unsigned char>(raw[index / 2]) >> (index % 2 * 4) & 15u;
    uint64_t word = 0;
    std::memcpy(&word, raw.data() + index * (bits / 8), bits / 8);
    return word;
}
//! Same bits, NaN and NaN, or numbers within the bound; zeros of different sign are different.
static bool agree(uint64_t a, uint64_t b, const Rule& rule)
{
    const uint64_t x = a & rule.magnitude, y = b & rule.magnitude;
    const bool nan_a = rule.low <= x && x <= rule.high, nan_b = rule.low <= y && y <= rule.high;
    if (a == b || nan_a || nan_b || rule.ulp == 0 || (x == 0 && y == 0))
        return a == b || (nan_a && nan_b);
    if ((a != x) != (b != y))
        return x + y + 1 <= rule.ulp;
    return (x > y ? x - y : y - x) <= rule.ulp;
}
//! Compare a result with the expected one where its mask says so; false where they differ.
static bool compare(const std::string& to, const std::string& reference, const std::string& name,
                    const Rule& rule, bool tile)
{
    const std::string expected = reference + "/expected/" + name;
    if (tile && read_file(to + "/" + name + ".valid.bin") != read_file(expected + ".valid.bin")) {
        std::printf("%s: another valid region than expected\\n", name.c_str());
        return false;
    }
    const std::vector<char> found = read_file(to + "/" + name + ".bin");
    const std::vector<char> wanted = read_file(expected + ".bin");
    const std::vector<char> mask = read_file(reference + "/mask/" + name + ".bin");
    if (found.size() != wanted.size()) {
        std::printf("%s: %zu bytes, expected %zu\\n", name.c_str(), found.size(), wanted.size());
        return false;
    }
    std::size_t compared = 0, different = 0, first = 0;
    for (std::size_t i = 0; i < mask.size(); ++i) {
        if (mask[i] == 0)
            continue;
        ++compared;
        if (!agree(element(found, i, rule.bits), element(wanted, i, rule.bits), rule) && different++ == 0)
            first = i;
    }
    std::printf("%s: %zu of %zu compared elements differ", name.c_str(), different, compared);
    if (different != 0)
        std::printf(", first element %zu: 0x%llx, expected 0x%llx", first,
                    static_cast<unsigned long long>(element(found, first, rule.bits)),
                    static_cast<unsigned long long>(element(wanted, first, rule.bits)));
    std::printf(" (%zu not compared)\\n", mask.size() - compared);
    return different == 0;
}
"""


def prelude() -> str:
    """Includes and helpers, the same for all cases."""
    includes = [f"#include {name}" for name in _INCLUDES.split()]
    return "\n".join([*includes, "", _HEADERS, _WINDOWS + writer.PRELUDE + _FILES + _COMPARISON])
