// Random sequences of minimizations on small networks, each checked against brute force or by the
// flow's own slow self-check, under the sanitizers.
#include "max_flow.h"

#include <cmath>
#include <memory>
#include <random>

#include "check.h"
#include "few_arcs.h"
#include "flow.h"
#include "grid_network_fill.h"

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

// Little to say for most sites, strong pairs, and a few seeds.
std::vector<double> far_unary(std::mt19937& random, std::size_t sites) {
    std::vector<double> unary(sites);
    for (double& u : unary) u = static_cast<double>(static_cast<int>(random() % 101) - 50);
    for (int seed = 0; seed < 12; ++seed) unary[random() % sites] = seed % 2 ? 1e5 : -1e5;
    return unary;
}

// Flow that goes over long distances is one to go on from, in any width.
void test_long_ways(std::mt19937& random, const Point& shape, const std::vector<Point>& offsets) {
    const GridWeights weights(shape, offsets, std::vector<double>(offsets.size(), 900.0),
                              std::nullopt, {}, {});
    const auto sites = static_cast<std::size_t>(volume(shape));
    const std::vector<double> unary = far_unary(random, sites);
    std::vector<double> values;
    std::vector<std::vector<bool>> labels;
    const auto read = std::make_unique<bool[]>(sites);
    for (const int bits : {16, 32, 64}) {
        const auto flow = grid_flow(weights, 1.0, bits, Poll());
        flow->minimize(unary.data(), Poll());
        flow->check();
        flow->labels(false, read.get(), Poll());
        values.push_back(flow->value());
        labels.emplace_back(read.get(), read.get() + sites);
    }
    CHECK(values[1] == values[0] && values[2] == values[0]);
    CHECK(labels[1] == labels[0] && labels[2] == labels[0]);
}

// What sites of a tile have together is what the tile has, before its flow and after it.
template <class Store>
void test_tiles(std::mt19937& random, const Point& shape, const std::vector<Point>& offsets) {
    using Network = GridNetwork<Store>;
    using Excess = typename Network::Excess;
    std::vector<double> factors;
    for (std::size_t m = 0; m < offsets.size(); ++m) {
        factors.push_back(static_cast<double>(random() % 9));
    }
    Network network(shape, offsets);
    network.fill(GridWeights(shape, offsets, factors, std::nullopt, {}, {}), 1.0, Poll());
    SharedArray<Excess> excess(static_cast<std::size_t>(network.sites()));
    const auto sites = static_cast<std::size_t>(volume(shape));
    for (std::size_t i = 0; i < sites; ++i) {
        excess[static_cast<std::size_t>(network.place(i))] =
            static_cast<Excess>(static_cast<int>(random() % 61) - 30);
    }
    // In the order of the tiles, the sum of their sites.
    Point halved = shape;
    for (Index& extent : halved) extent = (extent + 1) / 2;
    const auto sums = [&] {
        std::vector<std::int64_t> found(static_cast<std::size_t>(volume(halved)), 0);
        const Point strides = row_major_strides(halved);
        std::size_t i = 0;
        for_each_run(whole(shape), [&](Point p, Index length) {
            for (Index t = 0; t < length; ++t, ++p.back(), ++i) {
                Index tile = 0;
                for (std::size_t a = 0; a < p.size(); ++a) tile += p[a] / 2 * strides[a];
                found[static_cast<std::size_t>(tile)] +=
                    excess[static_cast<std::size_t>(network.place(i))];
            }
        });
        return found;
    };
    const auto no_pause = [](Index) {};
    typename Network::Half half(network, network.everything());
    half.gather(excess, no_pause);
    const auto agree = [&] {
        const std::vector<std::int64_t> found = sums();
        for (std::size_t k = 0; k < found.size(); ++k) {
            CHECK(half.excess()[static_cast<std::size_t>(half.network().place(k))] == found[k]);
        }
    };
    agree();
    MaxFlow tiles(half.network(), 1.0, half.excess(), half.network().everything());
    tiles.solve_tiles(Poll());
    tiles.check();
    half.spread(network, excess, no_pause);
    agree();
    for (std::size_t i = 0; i < sites; ++i) {
        const Site v = network.place(i);
        for (Arc m = 0; m < network.degree(v); ++m) {
            CHECK(network.residual(v, m) >= 0);
            CHECK(network.head(v, m) == v || network.is_open(v, m) == (network.residual(v, m) > 0));
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
    const std::vector<Point> cross{{0, 1}, {1, 0}};
    const std::vector<Point> king{{0, 1}, {1, 0}, {1, 1}, {1, -1}};
    const std::vector<Point> axes{{0, 0, 1}, {0, 1, 0}, {1, 0, 0}};
    test_long_ways(random, {70, 81}, cross);
    test_long_ways(random, {65, 64}, king);
    test_long_ways(random, {17, 18, 19}, axes);
    // Tiles of these would have more neighbors than sites have.
    test_long_ways(random, {70, 71}, {{0, 2}, {3, 1}, {1, -2}, {2, 3}});
    for (int turn = 0; turn < 5; ++turn) {
        test_tiles<FewArcs<std::int16_t, 4>>(random, {9, 12}, cross);
        test_tiles<FewArcs<std::int32_t, 4>>(random, {1, 7}, cross);
        test_tiles<FewArcs<std::int16_t, 8>>(random, {11, 8}, king);
        test_tiles<FewArcs<std::int64_t, 6>>(random, {5, 4, 7}, axes);
        test_tiles<FewArcs<std::int16_t, 4>>(random, {30}, {{1}, {-3}});
    }
    test_brute_force(random);
    test_greatest_capacities();
    test_twins_and_loops_are_refused();
    test_interruption(random);
    return 0;
}
