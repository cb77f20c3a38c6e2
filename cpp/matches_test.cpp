#include "matches.h"

#include <numeric>

#include "check.h"

using namespace dope;

namespace {

void test_matches_agree_with_levels() {
    constexpr Level levels[16] = {0,       1,          -1, 31, 32, -32, 33, -95,
                                  1 << 29, -(1 << 29), 7,  -7, 0,  64,  -1, 2};
    std::uint8_t marks[16];
    for (int k = 0; k < 16; ++k) marks[k] = mark(levels[k]);
    const Sixteen sixteen = Sixteen::from(marks);
    // Whole masks are compared, not bits: GCC 12.2 miscompiles ((~x >> k) & 1) == (y >= 0).
    const auto where = [&](auto holds) {
        SixteenBits bits = 0;
        for (unsigned k = 0; k < 16; ++k) bits |= SixteenBits{holds(levels[k])} << k;
        return bits;
    };
    CHECK(OutsideOf<kSource>()(sixteen) == where([](Level level) { return level <= 0; }));
    CHECK(OutsideOf<kSource>()(sixteen) == where(OutsideOf<kSource>()));
    CHECK(OutsideOf<kSink>()(sixteen) == where([](Level level) { return level >= 0; }));
    CHECK(OutsideOf<kSink>()(sixteen) == where(OutsideOf<kSink>()));
    CHECK(Anywhere()(sixteen) == 0xFFFF);
    for (const Level wanted : levels) {
        CHECK(where(AtLevel(wanted)) == where([&](Level level) { return level == wanted; }));
        CHECK(AtLevel(wanted)(sixteen) == where([&](Level level) {
                  // Levels 32 apart look alike; others never.
                  if (level == 0 || wanted == 0) return level == wanted;
                  return (level > 0) == (wanted > 0) && (level - wanted) % 32 == 0;
              }));
    }
}

template <int kRow>
void test_rows() {
    std::uint8_t bytes[64];
    std::iota(bytes, bytes + 64, std::uint8_t{0});
    const std::int32_t steps[4] = {-20, 3, -7, 11};
    std::uint8_t expected[16];
    for (int k = 0; k < 16; ++k) expected[k] = bytes[32 + steps[k / kRow] + k % kRow];
    CHECK(Sixteen::rows<kRow>(bytes + 32, steps).equal(Sixteen::from(expected)) == 0xFFFF);
    const Sixteen rows = Sixteen::rows<kRow>(bytes + 32, steps);
    const SixteenBits odd = rows.having<0>();
    for (int k = 0; k < 16; ++k) CHECK(((odd >> k) & 1) == expected[k] % 2);
}

}  // namespace

int main() {
    test_matches_agree_with_levels();
    test_rows<4>();
    test_rows<8>();
    test_rows<16>();
    const Sixteen low_half = Sixteen::all(0xAB) & Sixteen::all(0x0F);
    CHECK(low_half.equal(Sixteen::all(0x0B)) == 0xFFFF);
    return 0;
}
