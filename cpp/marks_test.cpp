#include "marks.h"

#include "check.h"

using namespace dope;

int main() {
    constexpr Level levels[] = {0, 1, -1, 31, 32, -32, 33, -95, 1 << 29, -(1 << 29), 7, -7};
    constexpr Site sites = sizeof levels / sizeof *levels;
    Marks marks(sites);
    for (Site v = 0; v < sites; ++v) marks.set(v, levels[v]);

    for (Site first = 0; first < sites; ++first) {
        const EightMarks eight = marks.eight_from(first);
        for (Site k = 0; k < 8 && first + k < sites; ++k) {
            const Level level = levels[first + k];
            CHECK(((OutsideOf<kSource>()(eight) >> k) & 1) == (level <= 0));
            CHECK(((OutsideOf<kSink>()(eight) >> k) & 1) == (level >= 0));
            CHECK((Anywhere()(eight) >> k) & 1);
            for (const Level wanted : levels) {
                // Levels 32 apart look alike; others never.
                const bool alike = level == 0 || wanted == 0
                                       ? level == wanted
                                       : (level > 0) == (wanted > 0) && (level - wanted) % 32 == 0;
                CHECK(((AtLevel(wanted)(eight) >> k) & 1) == alike);
            }
        }
    }
    marks.clear();
    CHECK(marks.eight_from(0) == 0);
    return 0;
}
