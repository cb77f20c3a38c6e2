// Random sequences of minimizations on small networks, each checked against brute force or by the
// flow's own slow self-check, under the sanitizers.
#include <cmath>
#include <memory>
#include <random>

#include "check.h"
#include "flow.h"

using namespace dope;

namespace {

std::vector<double> random_unary(std::mt19937& random, std::size_t sites) {
    std::vector<double> unary(sites);
    const int kind = static_cast<int>(random() % 3);
    for (double& u : unary) {
        u = static_cast<double>(static_cast<int>(random() % 41) - 20);
        if (kind == 1 && random() % 5 == 0) u *= 1e9;
        if (kind == 2 && random() % 2 == 0) u = 0.0;
    }
    return unary;
}

template <class AnyFlow>
void solve_in_turn(std::mt19937& random, AnyFlow& warm, std::size_t sites) {
    const auto labels = std::make_unique<bool[]>(sites);
    std::vector<double> unary = random_unary(random, sites);
    for (int turn = 0; turn < 12; ++turn) {
        warm.minimize(unary.data(), Poll());
        warm.check();
        warm.labels(random() % 2 == 0, labels.get(), Poll());
        warm.check();
        const std::vector<double> other = random_unary(random, sites);
        const std::size_t rare = 1 + random() % 30;
        for (std::size_t i = 0; i < sites; ++i) {
            if (random() % rare == 0) unary[i] = other[i];
        }
    }
}

void test_grid(std::mt19937& random, const Point& shape, const std::vector<Point>& offsets) {
    std::vector<double> factors;
    for (std::size_t m = 0; m < offsets.size(); ++m) {
        factors.push_back(static_cast<double>(random() % 9));
    }
    const GridWeights weights(shape, offsets, factors, std::nullopt, {}, {});
    for (const int bits : {16, 32, 64}) {
        const auto opened = grid_flow(weights, 1.0, bits, Poll());
        GridFlow& flow = *opened;
        CHECK(flow.bytes() == grid_flow_bytes(shape, offsets, bits));
        solve_in_turn(random, flow, static_cast<std::size_t>(volume(shape)));
    }
}

void test_graph(std::mt19937& random, std::size_t sites, std::size_t rare) {
    std::vector<Vertex> ends;
    std::vector<double> weights;
    for (std::size_t i = 0; i < sites; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (random() % rare) continue;
            ends.push_back(static_cast<Vertex>(i));
            ends.push_back(static_cast<Vertex>(j));
            weights.push_back(static_cast<double>(random() % 15));
        }
    }
    for (const int bits : {16, 32, 64}) {
        const auto opened = graph_flow(static_cast<std::int64_t>(sites), ends.data(),
                                       weights.data(), weights.size(), 1.0, bits);
        GraphFlow& flow = *opened;
        solve_in_turn(random, flow, sites);
    }
}

void test_brute_force(std::mt19937& random) {
    const Point shape{3, 4};
    constexpr std::size_t kSites = 12;
    const GridWeights weights(shape, {{0, 1}, {1, 0}, {1, -1}}, {3.0, 2.0, 1.0}, std::nullopt, {},
                              {});
    const auto opened = grid_flow(weights, 1.0, 16, Poll());
    GridFlow& flow = *opened;
    for (int turn = 0; turn < 20; ++turn) {
        const std::vector<double> unary = random_unary(random, kSites);
        double least = HUGE_VAL;
        for (unsigned y = 0; y < (1U << kSites); ++y) {
            const auto label = [&](std::size_t r, std::size_t c) {
                return (y >> (4 * r + c)) & 1U;
            };
            double energy = 0.0;
            for (std::size_t r = 0; r < 3; ++r) {
                for (std::size_t c = 0; c < 4; ++c) {
                    energy += label(r, c) ? unary[4 * r + c] : 0.0;
                    if (c < 3) energy += 3.0 * (label(r, c) ^ label(r, c + 1));
                    if (r < 2) energy += 2.0 * (label(r, c) ^ label(r + 1, c));
                    if (r < 2 && c > 0) energy += label(r, c) ^ label(r + 1, c - 1);
                }
            }
            least = std::min(least, energy);
        }
        flow.minimize(unary.data(), Poll());
        CHECK(flow.value() == least);
    }
}

// One pair as strong as each width allows, between sites that change their minds entirely.
void test_greatest_capacities() {
    for (const auto& [bits, capacity] :
         {std::pair(16, 16383.0), std::pair(32, 0x1p30 - 1), std::pair(64, 0x1p48 - 1)}) {
        const GridWeights weights({2}, {{1}}, {capacity}, std::nullopt, {}, {});
        const auto flow = grid_flow(weights, 1.0, bits, Poll());
        for (const double sure : {-1e300, 1e300, -capacity, capacity}) {
            const double unary[] = {sure, -sure};
            flow->minimize(unary, Poll());
            flow->check();
            CHECK(flow->value() == (std::abs(sure) > capacity ? -1e300 : -0.0));
        }
    }
}

void test_twins_and_loops_are_refused() {
    const auto refused = [](auto&& make) {
        try {
            make();
        } catch (const std::invalid_argument&) {
            return true;
        }
        return false;
    };
    const auto grid_refused = [&](const std::vector<Point>& offsets) {
        const std::vector<double> factors(offsets.size(), 1.0);
        const GridWeights weights({5, 5}, offsets, factors, std::nullopt, {}, {});
        return refused([&] { grid_flow(weights, 1.0, 32, Poll()); });
    };
    CHECK(grid_refused({{0, 0}}));
    CHECK(grid_refused({{0, 1}, {1, 0}, {0, 1}}));
    CHECK(grid_refused({{0, 1}, {1, -1}, {-1, 1}}));
    CHECK(!grid_refused({{0, 1}, {0, 9}, {0, 9}, {std::numeric_limits<Index>::min(), 0}}));
    const double weight = 1.0;
    const Vertex loop[] = {2, 2};
    CHECK(refused([&] { graph_flow(3, loop, &weight, 1, 1.0, 32); }));
}

// Interrupted at every opportunity, the flow still gets there.
void test_interruption(std::mt19937& random) {
    const Point shape{90, 90};
    const GridWeights weights(shape, {{0, 1}, {1, 0}}, {9.0, 9.0}, std::nullopt, {}, {});
    const auto opened = grid_flow(weights, 1.0, 32, Poll());
    GridFlow& flow = *opened;
    const auto labels = std::make_unique<bool[]>(90 * 90);
    int interruptions = 0;
    for (int turn = 0; turn < 30; ++turn) {
        const std::vector<double> unary = random_unary(random, 90 * 90);
        try {
            flow.minimize(unary.data(), [] { return true; });
            flow.check();
        } catch (const Interrupted&) {
            ++interruptions;
            bool refused = false;
            try {
                flow.labels(false, labels.get(), Poll());
            } catch (const std::runtime_error&) {
                refused = true;
            }
            CHECK(refused);
        }
    }
    CHECK(interruptions > 0);
    flow.minimize(random_unary(random, 90 * 90).data(), Poll());
    flow.check();
}

}  // namespace

int main() {
    std::mt19937 random(7);
    for (int turn = 0; turn < 20; ++turn) {
        test_grid(random, {1}, {{1}});
        test_grid(random, {17}, {{1}, {-2}});
        test_grid(random, {1, 13}, {{0, 1}, {1, 0}, {-1, 1}});
        test_grid(random, {8, 9}, {{0, 1}, {1, 0}});
        test_grid(random, {7, 6}, {{0, 1}, {1, 0}, {1, 1}, {1, -1}, {2, 1}, {-2, 3}, {9, 9}});
        test_grid(random, {3, 4, 5}, {{0, 0, 1}, {0, 1, 0}, {-1, 0, 0}, {1, 1, 1}, {1, -1, 1}});
        test_grid(random, {2, 3, 2, 3}, {{0, 0, 0, 1}, {0, 0, 1, 0}, {0, 1, 0, 0}, {1, 0, 0, -1}});
        test_graph(random, 1 + random() % 30, 1 + random() % 12);
    }
    std::vector<Point> wide;
    for (Index a = -6; a <= 6; ++a) {
        for (Index b = -6; b <= 6; ++b) {
            if (a > 0 || (a == 0 && b > 0)) wide.push_back({a, b});
        }
    }
    test_grid(random, {15, 14}, wide);
    test_brute_force(random);
    test_greatest_capacities();
    test_twins_and_loops_are_refused();
    test_interruption(random);
    return 0;
}
