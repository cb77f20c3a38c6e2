// Neighbors, and what goes from neighbor to neighbor, on small boxes and graphs: beside the energy
// by its definition and brute force.
#include "neighbors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "check.h"
#include "distances.h"
#include "mean_field.h"
#include "standpoint.h"
#include "trws.h"

using namespace dope;

namespace {

using Labels = std::vector<std::uint8_t>;

const Poll kGoOn = [] { return false; };
const Poll kStop = [] { return true; };

bool close(double a, double b) { return std::abs(a - b) < 1e-9 * (1.0 + std::abs(a)); }

// A grid's weights, and the same pairs as a list.
struct Problem {
    Point shape;
    std::vector<std::vector<double>> fields;
    std::vector<Point> offsets;
    std::vector<double> unary;
    std::vector<std::int64_t> ends;
    std::vector<double> weights;

    Index sites() const { return volume(shape); }
    Index pairs() const { return static_cast<Index>(weights.size()); }

    GridWeights grid() const {
        std::vector<RealView> views;
        for (const auto& field : fields) {
            views.push_back(View<double>{field.data(), row_major_strides(shape), nullptr});
        }
        return GridWeights(shape, offsets, std::vector<double>(offsets.size(), 1.0), {}, views, {});
    }

    double energy(const Labels& y) const {
        double sum = 0.0;
        for (Index i = 0; i < sites(); ++i) sum += y[i] ? unary[i] : 0.0;
        for (Index e = 0; e < pairs(); ++e) {
            if (y[ends[2 * e]] != y[ends[2 * e + 1]]) sum += weights[e];
        }
        return sum;
    }

    double minimum() const {
        double least = std::numeric_limits<double>::infinity();
        Labels y(static_cast<std::size_t>(sites()));
        for (Index bits = 0; bits < Index{1} << sites(); ++bits) {
            for (Index i = 0; i < sites(); ++i) y[i] = (bits >> i) & 1;
            least = std::min(least, energy(y));
        }
        return least;
    }
};

Problem problem(std::mt19937& random, const Point& shape, const std::vector<Point>& offsets) {
    std::normal_distribution<double> normal;
    Problem made;
    made.shape = shape;
    made.offsets = offsets;
    const Point strides = row_major_strides(shape);
    for (Index i = 0; i < made.sites(); ++i) made.unary.push_back(normal(random));
    for (const Point& offset : offsets) {
        std::vector<double> field(made.unary.size());
        const bool uniform = random() % 3 == 0;
        std::fill(field.begin(), field.end(), normal(random));
        for (double& w : field) {
            if (!uniform) w = random() % 4 == 0 ? 0.0 : normal(random);
        }
        const Box from = tails(whole(shape), shape, offset);
        if (!from.empty()) {
            for_each_run(from, [&](const Point& first, Index length) {
                for (Index t = 0; t < length; ++t) {
                    const Index p = dot(first, strides) + t;
                    made.ends.push_back(p);
                    made.ends.push_back(p + dot(offset, strides));
                    made.weights.push_back(field[p]);
                }
            });
        }
        made.fields.push_back(std::move(field));
    }
    return made;
}

Labels random_labels(std::mt19937& random, Index sites) {
    Labels y(static_cast<std::size_t>(sites));
    for (auto& label : y) label = random() % 2;
    return y;
}

template <class Kind>
std::multimap<Index, double> around(const Kind& neighbors, Index site) {
    std::multimap<Index, double> found;
    neighbors.visit(site, [&](Index j, double w) { found.emplace(j, w); });
    return found;
}

// Every pair has a slot of its own, the same from both of its ends.
template <class Kind>
void test_slots(const Kind& neighbors) {
    std::map<Index, std::vector<std::pair<Index, Index>>> seen;
    for (Index i = 0; i < neighbors.sites(); ++i) {
        neighbors.visit_slots(i, [&](Index j, double, Index slot) {
            CHECK(0 <= slot && slot < neighbors.slots());
            seen[slot].emplace_back(std::min(i, j), std::max(i, j));
        });
    }
    for (const auto& [slot, pairs] : seen) CHECK(pairs.size() == 2 && pairs[0] == pairs[1]);
}

void test_neighbors(const Problem& of) {
    const GridNeighbors grid(of.grid());
    const GraphNeighbors graph(of.sites(), of.ends.data(), of.weights.data(), of.pairs());
    CHECK(grid.sites() == of.sites() && graph.sites() == of.sites());
    for (Index i = 0; i < of.sites(); ++i) CHECK(around(grid, i) == around(graph, i));
    test_slots(grid);
    test_slots(graph);
}

double approximated(const Problem& of, const Labels& y, const Labels& z) {
    double sum = 0.0;
    for (Index i = 0; i < of.sites(); ++i) sum += z[i] ? of.unary[i] : 0.0;
    for (Index e = 0; e < of.pairs(); ++e) {
        const Index i = of.ends[2 * e], j = of.ends[2 * e + 1];
        const double w = of.weights[e];
        const double of_y = y[i] != y[j] ? w : 0.0;
        const double slope = w * ((z[i] - y[i]) * (1 - 2 * y[j]) + (z[j] - y[j]) * (1 - 2 * y[i]));
        sum += w < 0.0 ? of_y + slope : (z[i] != z[j] ? w : 0.0);
    }
    return sum;
}

void test_standpoint(const Problem& of, Standpoint& here, std::mt19937& random) {
    const Labels y = random_labels(random, of.sites()), z = random_labels(random, of.sites());
    here.stand(of.unary.data(), y.data());
    const Falls falls = here.falls(z.data());
    CHECK(close(falls.actual, of.energy(y) - of.energy(z)));
    CHECK(close(falls.predicted, of.energy(y) - approximated(of, y, z)));
    here.move(z.data());
    for (Index i = 0; i < of.sites(); ++i) {
        Labels zero = z, one = z;
        zero[i] = 0;
        one[i] = 1;
        CHECK(here.labels()[i] == z[i]);
        CHECK(close(here.prices()[i], of.energy(one) - of.energy(zero)));
        double tangent = of.unary[i];
        for (Index e = 0; e < of.pairs(); ++e) {
            if (of.weights[e] >= 0.0) continue;
            for (const int end : {0, 1}) {
                if (of.ends[2 * e + end] != i) continue;
                tangent += of.weights[e] * (1 - 2 * z[of.ends[2 * e + 1 - end]]);
            }
        }
        CHECK(close(here.tangents()[i], tangent));
    }

    CHECK(here.descend(0) == 0);
    here.descend(std::numeric_limits<Index>::max());
    const Labels end(here.labels(), here.labels() + of.sites());
    CHECK(of.energy(end) <= of.energy(z) + 1e-9);
    for (Index i = 0; i < of.sites(); ++i) {
        Labels flipped = end;
        flipped[i] ^= 1;
        CHECK(of.energy(flipped) >= of.energy(end) - 1e-9);
    }
}

void test_repelled_before(const Problem& of, const Standpoint& here, std::mt19937& random) {
    std::vector<std::int64_t> rank(of.unary.size());
    for (std::size_t i = 0; i < rank.size(); ++i) rank[i] = static_cast<std::int64_t>(i);
    std::shuffle(rank.begin(), rank.end(), random);
    std::vector<double> found(rank.size()), expected(rank.size(), 0.0);
    here.repelled_before(rank.data(), found.data());
    for (Index e = 0; e < of.pairs(); ++e) {
        Index i = of.ends[2 * e], j = of.ends[2 * e + 1];
        if (rank[i] < rank[j]) std::swap(i, j);
        if (of.weights[e] < 0.0) expected[i] -= 2.0 * of.weights[e];
    }
    for (std::size_t i = 0; i < rank.size(); ++i) CHECK(close(found[i], expected[i]));
}

void test_trws(const Problem& of, const Trws& passing, bool tree) {
    const double minimum = of.minimum();
    double before = -std::numeric_limits<double>::infinity();
    for (const Index rounds : {1, 2, 5, 200}) {
        const TrwsFound found = passing.run(of.unary.data(), {rounds, 0.0, 0.0}, kGoOn);
        CHECK(found.bound - found.rounding_error <= minimum + 1e-12);
        CHECK(found.bound >= before);
        CHECK(of.energy(found.labels) >= minimum - 1e-9);
        CHECK(found.rounds <= rounds);
        before = found.bound;
        if (tree) CHECK(close(found.bound, minimum) && close(of.energy(found.labels), minimum));
    }
    bool stopped = false;
    try {
        passing.run(of.unary.data(), {1, 0.0, 0.0}, kStop);
    } catch (const Interrupted&) {
        stopped = true;
    }
    CHECK(stopped);
}

void test_mean_field(const Problem& of, const MeanField& field) {
    std::vector<double> q(of.unary.size());
    const double hot = field.strength() + 1e-3, cold = 1e-4 * hot;
    field.run(of.unary.data(), {hot, cold, 0.8}, q.data(), kGoOn);
    for (const double one : q) CHECK(0.0 <= one && one <= 1.0);
    // A last sweep would change little: every q follows from the others.
    const GraphNeighbors neighbors(of.sites(), of.ends.data(), of.weights.data(), of.pairs());
    for (Index i = 0; i < of.sites(); ++i) {
        double price = of.unary[i];
        neighbors.visit(i, [&](Index j, double w) { price += w * (1.0 - 2.0 * q[j]); });
        if (std::abs(price) > 0.1 * hot) CHECK((price < 0.0) == (q[i] > 0.5));
    }
}

void test_distances(std::mt19937& random, const Point& shape) {
    const Point strides = row_major_strides(shape);
    const Index sites = volume(shape);
    Labels y = random_labels(random, sites);
    if (random() % 4 == 0) std::fill(y.begin(), y.end(), std::uint8_t{random() % 2 == 0});
    const auto place = [&](Index i) {
        Point at;
        for (std::size_t a = 0; a < shape.size(); ++a) at.push_back(i / strides[a] % shape[a]);
        return at;
    };
    std::vector<double> found(y.size());
    distances(shape, y.data(), found.data());
    const bool any = std::any_of(y.begin(), y.end(), [](std::uint8_t label) { return label != 0; });
    for (Index i = 0; i < sites; ++i) {
        double least = std::numeric_limits<double>::infinity();
        const Point here = place(i);
        for (Index j = 0; j < sites; ++j) {
            if (y[i] == y[j]) continue;
            double square = 0.0;
            const Point there = place(j);
            for (std::size_t a = 0; a < shape.size(); ++a) {
                const auto step = static_cast<double>(here[a] - there[a]);
                square += step * step;
            }
            least = std::min(least, std::sqrt(square));
        }
        for (std::size_t a = 0; y[i] && a < shape.size(); ++a) {
            least = std::min(least, static_cast<double>(std::min(here[a] + 1, shape[a] - here[a])));
        }
        CHECK(close(found[i], any ? least - 0.5 : 1.0));
    }
}

void test_all(const Problem& of, std::mt19937& random, bool tree) {
    test_neighbors(of);
    const Index n = of.sites(), m = of.pairs();
    const Neighbors of_grid(of.grid());
    const Neighbors of_graph(n, of.ends.data(), of.weights.data(), m);
    CHECK(of_grid.sites() == n && of_graph.sites() == n);
    const auto grid = standpoint(of_grid);
    const auto graph = standpoint(of_graph);
    for (Standpoint* here : {grid.get(), graph.get()}) {
        test_standpoint(of, *here, random);
        test_repelled_before(of, *here, random);
    }
    test_trws(of, *trws(of_grid), tree);
    test_trws(of, *trws(of_graph), tree);
    test_mean_field(of, *mean_field(of_grid));
    test_mean_field(of, *mean_field(of_graph));
}

}  // namespace

int main() {
    std::mt19937 random(20240607);
    for (int repeat = 0; repeat < 40; ++repeat) {
        test_all(problem(random, {11}, {{1}}), random, true);
        test_all(problem(random, {9}, {{1}, {3}, {-2}}), random, false);
        test_all(problem(random, {3, 3}, {{0, 1}, {1, 0}, {1, -2}, {-1, 1}}), random, false);
        test_all(problem(random, {2, 2, 2}, {{0, 0, 1}, {1, -1, 0}, {0, 1, 1}, {1, 0, 0}}), random,
                 false);
        test_all(problem(random, {1}, {{1}}), random, true);
        test_all(problem(random, {4}, {}), random, true);
        for (const Point& shape : {Point{1}, Point{9}, Point{5, 4}, Point{3, 1, 4}}) {
            test_distances(random, shape);
        }
    }
    return 0;
}
