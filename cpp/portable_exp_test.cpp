#include "portable_exp.h"

#include <cmath>

#include "check.h"

using dope::nearest;
using dope::portable_exp;

int main() {
    CHECK(portable_exp(0.0) == 1.0);
    CHECK(portable_exp(-1e6) == 0.0);
    CHECK(portable_exp(-HUGE_VAL) == 0.0);
    CHECK(portable_exp(1e6) == HUGE_VAL);
    CHECK(std::isnan(portable_exp(NAN)));
    for (double x = -708.0; x < 709.0; x += 0.0137) {
        CHECK(std::abs(portable_exp(x) / std::exp(x) - 1.0) < 1e-14);
    }
    // Bits that every platform has to find.
    CHECK(portable_exp(-1.0) == 0x1.78b56362cef38p-2);
    CHECK(portable_exp(-0.1) == 0x1.cf46d99d52b3ap-1);
    CHECK(portable_exp(-300.25) == 0x1.c758233102acep-434);

    CHECK(nearest(0.5) == 0.0 && nearest(1.5) == 2.0 && nearest(-2.5) == -2.0);
    CHECK(nearest(0x1p50 + 0.5) == 0x1p50);
    return 0;
}
