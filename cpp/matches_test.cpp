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
    for (int k = 0; k < 16; ++k) {
        const auto bit = [k](SixteenBits bits) { return ((bits >> k) & 1) != 0; };
        const Level level = levels[k];
        CHECK(bit(OutsideOf<kSource>()(sixteen)) == (level <= 0));
        CHECK(OutsideOf<kSource>()(level) == (level <= 0));
        CHECK(bit(OutsideOf<kSink>()(sixteen)) == (level >= 0));
        CHECK(OutsideOf<kSink>()(level) == (level >= 0));
        CHECK(bit(Anywhere()(sixteen)));
        for (const Level wanted : levels) {
            // Levels 32 apart look alike; others never.
            const bool alike = level == 0 || wanted == 0
                                   ? level == wanted
                                   : (level > 0) == (wanted > 0) && (level - wanted) % 32 == 0;
            CHECK(bit(AtLevel(wanted)(sixteen)) == alike);
            CHECK(AtLevel(wanted)(level) == (level == wanted));
        }
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
