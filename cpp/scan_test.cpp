// Arrays looked through by vectors, beside one number after the other.
#include "scan.h"

#include <random>

#include "check.h"
#include "exact_run.h"
#include "fingerprint.h"
#include "units.h"

using namespace dope;

namespace {

struct Numbers {
    std::vector<double> values;
    Point shape;

    // Every second number of every second row.
    View<double> view() const { return {values.data(), {4 * shape[1], 2}, nullptr}; }
    double at(Index row, Index column) const {
        return values[static_cast<std::size_t>(row * 4 * shape[1] + 2 * column)];
    }
};

Numbers numbers(std::mt19937_64& random, int exponents) {
    Numbers made{{},
                 {1 + static_cast<Index>(random() % 5), 1 + static_cast<Index>(random() % 1500)}};
    for (Index k = 0; k < made.shape[0] * made.shape[1] * 4; ++k) {
        const double size = static_cast<double>(random() % 2001) - 1000.0;
        const int power =
            exponents == 0 ? 0 : static_cast<int>(random() % exponents) - exponents / 2;
        made.values.push_back(std::ldexp(size, power));
    }
    return made;
}

void test_scan(std::mt19937_64& random) {
    const Numbers made = numbers(random, random() % 2 == 0 ? 0 : 12);
    const Scan found = scan(made.view(), made.shape, 0.5, 20, Poll());
    double low = made.at(0, 0);
    double high = low;
    double total = 0.0;
    int places = 0;
    for (Index row = 0; row < made.shape[0]; ++row) {
        for (Index column = 0; column < made.shape[1]; ++column) {
            const double value = made.at(row, column);
            low = std::min(low, value);
            high = std::max(high, value);
            total += std::fabs(value);
            while (std::rint(std::ldexp(0.5 * value, places)) != std::ldexp(0.5 * value, places)) {
                ++places;
            }
        }
    }
    CHECK(found.low == low && found.high == high && found.total == total);
    CHECK(found.places == places && found.beyond == -1);
    CHECK(!scan(made.view(), made.shape, 0.5, -1, Poll()).places);
}

void test_beyond(std::mt19937_64& random) {
    Numbers made = numbers(random, 0);
    const Index row = static_cast<Index>(random()) & (made.shape[0] > 1 ? 1 : 0);
    const Index column = static_cast<Index>(random() % static_cast<std::uint64_t>(made.shape[1]));
    made.values[static_cast<std::size_t>(row * 4 * made.shape[1] + 2 * column)] =
        random() % 2 == 0 ? std::nan("") : -std::numeric_limits<double>::infinity();
    CHECK(scan(made.view(), made.shape, 1.0, 20, Poll()).beyond == row * made.shape[1] + column);
}

void test_sums(std::mt19937_64& random) {
    const int exponents[] = {0, 40, 400, 1900};
    const Numbers made = numbers(random, exponents[random() % 4]);
    std::vector<std::uint8_t> chosen(static_cast<std::size_t>(volume(made.shape)) * 3);
    for (std::uint8_t& one : chosen) one = static_cast<std::uint8_t>(random() % 3);
    const MaskView mask{chosen.data(), {made.shape[1] * 3, 3}, nullptr};
    ExactSum all;
    ExactSum some;
    for (Index row = 0; row < made.shape[0]; ++row) {
        for (Index column = 0; column < made.shape[1]; ++column) {
            all.add(made.at(row, column));
            if (*mask.at({row, column}) != 0) some.add(made.at(row, column));
        }
    }
    CHECK(exact_sum(made.view(), made.shape, {}, Poll()).digits() == all.digits());
    CHECK(exact_sum(made.view(), made.shape, mask, Poll()).digits() == some.digits());
}

void test_units(std::mt19937_64& random) {
    const Numbers made = numbers(random, 30);
    std::vector<std::int32_t> units(static_cast<std::size_t>(volume(made.shape)));
    bool fits = true;
    std::vector<double> expected;
    for (Index row = 0; row < made.shape[0]; ++row) {
        for (Index column = 0; column < made.shape[1]; ++column) {
            expected.push_back(std::rint(made.at(row, column) * 1024.0));
            fits &= std::fabs(expected.back()) < 0x1p31;
        }
    }
    CHECK(count_units(made.view(), made.shape, 1024.0, units.data(), Poll()) == fits);
    for (std::size_t k = 0; fits && k < units.size(); ++k) CHECK(units[k] == expected[k]);
}

void test_fingerprints(std::mt19937_64& random) {
    Numbers made = numbers(random, 0);
    const Fingerprint found = fingerprint(made.view(), made.shape, Poll());
    std::vector<float> packed;
    for (Index row = 0; row < made.shape[0]; ++row) {
        for (Index column = 0; column < made.shape[1]; ++column) {
            packed.push_back(static_cast<float>(made.at(row, column)));
        }
    }
    View<float> view{packed.data(), {made.shape[1], 1}, nullptr};
    CHECK(fingerprint(view, made.shape, Poll()) == found);
    packed[random() % packed.size()] += 1.0F;
    CHECK(fingerprint(view, made.shape, Poll()) != found);
}

void test_stops() {
    const std::vector<double> values(100000, 1.0);
    const View<double> view{values.data(), {1}, nullptr};
    bool stopped = false;
    try {
        scan(view, {100000}, 1.0, 20, [] { return true; });
    } catch (const Interrupted&) {
        stopped = true;
    }
    CHECK(stopped);
}

}  // namespace

int main() {
    std::mt19937_64 random(5);
    for (int round = 0; round < 200; ++round) {
        test_scan(random);
        test_beyond(random);
        test_sums(random);
        test_units(random);
        test_fingerprints(random);
    }
    test_stops();
}
