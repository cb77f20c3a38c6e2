// Sums of numbers of any size beside sums of integers that are exact by themselves.
#include "exact_sum.h"

#include <random>

#include "check.h"

using namespace dope;

namespace {

void test_orders_and_sizes(std::mt19937_64& random) {
    std::vector<double> values;
    ExactSum forth;
    for (int k = 0; k < 200; ++k) {
        const double value = std::ldexp(static_cast<double>(random() >> 11) - 0x1p52,
                                        static_cast<int>(random() % 1900) - 1074);
        values.push_back(value);
        forth.add(value);
    }
    ExactSum back;
    for (std::size_t k = values.size(); k-- > 0;) back.add(values[k]);
    CHECK(forth.digits() == back.digits());
    for (const double value : values) back.add(-value);
    CHECK(back.nearest() == 0.0 && back.floor() == 0.0);
    ExactSum both = forth;
    both.add(back);
    CHECK(both.digits() == forth.digits());
}

void test_rounding() {
    const double tiny = std::numeric_limits<double>::denorm_min();
    const double huge = std::numeric_limits<double>::max();
    ExactSum sum;
    sum.add(1.0);
    sum.add(tiny);
    CHECK(sum.nearest() == 1.0 && sum.floor() == 1.0);
    sum.add(std::int64_t{-2});
    CHECK(sum.nearest() == -1.0 && sum.floor() == -1.0);
    sum.add(-tiny);
    sum.add(-tiny);
    CHECK(sum.nearest() == -1.0 && sum.floor() == std::nextafter(-1.0, -2.0));
    CHECK(sum.floor(4) == std::nextafter(-16.0, -17.0));
    sum = ExactSum();
    sum.add(0x1p53);
    sum.add(1.0);
    CHECK(sum.nearest() == 0x1p53 && sum.floor() == 0x1p53);
    sum.add(1.0);
    CHECK(sum.nearest() == 0x1p53 + 2.0);
    sum.add(1.0);
    CHECK(sum.nearest() == 0x1p53 + 4.0 && sum.floor() == 0x1p53 + 2.0);
    sum = ExactSum();
    sum.add(huge);
    sum.add(huge);
    CHECK(std::isinf(sum.nearest()) && sum.floor() == huge);
    CHECK(sum.nearest(-1) == huge);
    sum = ExactSum();
    sum.add(-huge, 900);
    CHECK(std::isinf(sum.floor()) && sum.floor(-900) == -huge);
    sum = ExactSum();
    sum.add(3.0 * tiny);
    CHECK(sum.nearest() == 3.0 * tiny && sum.nearest(-1) == 2.0 * tiny && sum.floor(-1) == tiny);
    CHECK(sum.nearest(-3) == 0.0 && sum.floor(-900) == 0.0);
    sum.add(-4.0 * tiny);
    CHECK(sum.floor(-900) == -tiny && sum.nearest(-900) == 0.0);
    sum.add(std::numeric_limits<double>::infinity());
    CHECK(!sum.finite() && std::isinf(sum.nearest()));
}

void test_integers(std::mt19937_64& random) {
    ExactSum sum;
    std::int64_t plain = 0;
    for (int k = 0; k < 1000; ++k) {
        const auto term = static_cast<std::int64_t>(random()) >> (10 + random() % 50);
        sum.add(term);
        plain += term;
    }
    ExactSum doubles;
    doubles.add(static_cast<double>(plain >> 30), 30);
    doubles.add(static_cast<double>(plain & ((std::int64_t{1} << 30) - 1)));
    CHECK(sum.digits() == doubles.digits());
}

}  // namespace

int main() {
    std::mt19937_64 random(1);
    for (int k = 0; k < 100; ++k) {
        test_orders_and_sizes(random);
        test_integers(random);
    }
    test_rounding();
}
