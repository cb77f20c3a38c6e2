// Messages of several labels beside their definition, and bounds beside brute force.
#include "label_trws.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "check.h"
#include "label_messages.h"

using namespace dope;

namespace {

using Kind = LabelMetric::Kind;

const Poll kGoOn = [] { return false; };
const Poll kStop = [] { return true; };

double price(const LabelMetric& metric, Index a, Index b) { return metric.row(a)[b]; }

// f(b) = min_a h(a) + w V(a, b), by its definition.
std::vector<double> defined(const std::vector<double>& h, double w, const LabelMetric& metric,
                            bool down) {
    std::vector<double> f(h.size(), std::numeric_limits<double>::infinity());
    for (std::size_t a = 0; a < h.size(); ++a) {
        for (std::size_t b = 0; b < h.size(); ++b) {
            f[b] = std::min(f[b], h[a] + w * (down ? price(metric, b, a) : price(metric, a, b)));
        }
    }
    return f;
}

void check_message(const LabelMetric& metric, double w, std::mt19937& random) {
    std::vector<double> h(static_cast<std::size_t>(metric.labels()));
    const double size = std::uniform_real_distribution<>(0.0, 4.0)(random);
    for (double& number : h) number = std::normal_distribution<>(0.0, std::pow(10.0, size))(random);
    for (const bool down : {false, true}) {
        LabelRoom room(metric.labels());
        std::copy(h.begin(), h.end(), room.one());
        const TurnedMessage found = turned(metric, w, nullptr, down, room);
        const std::vector<double> expected = defined(h, w, metric, down);
        for (std::size_t b = 0; b < h.size(); ++b) {
            CHECK(std::abs(found.least + found.f[b] - expected[b]) < 1e-9 * std::pow(10.0, size));
        }
        CHECK(*std::min_element(found.f, found.f + h.size()) == 0.0);
    }
}

LabelMetric random_table(Index labels, std::mt19937& random) {
    std::vector<double> table(static_cast<std::size_t>(labels * labels));
    for (double& number : table) number = std::normal_distribution<>(1.0, 2.0)(random);
    return {labels, table};
}

void messages_are_what_they_are_defined_to_be() {
    std::mt19937 random(1);
    for (const Index labels : {2, 3, 7, 8, 16, 33, 60, 128}) {
        for (const double w : {0.0, 0.3, 5.0, -1.5}) {
            check_message({Kind::kPotts, labels, 1.0}, w, random);
            for (const double limit : {0.5, 1.0, 2.0, 5.5, 49.0, 200.0, 1e300}) {
                check_message({Kind::kLinear, labels, limit}, w, random);
                check_message({Kind::kQuadratic, labels, limit}, w, random);
            }
            check_message(random_table(labels, random), w, random);
        }
    }
}

struct Problem {
    Index sites, labels;
    std::vector<std::int64_t> ends;
    std::vector<double> weights, costs;
    LabelMetric metric;

    double energy(const std::vector<std::uint16_t>& x) const {
        double sum = 0.0;
        for (Index i = 0; i < sites; ++i) sum += costs[i * labels + x[i]];
        for (std::size_t e = 0; e < weights.size(); ++e) {
            sum += weights[e] * price(metric, x[ends[2 * e]], x[ends[2 * e + 1]]);
        }
        return sum;
    }

    double minimum() const {
        std::vector<std::uint16_t> x(static_cast<std::size_t>(sites), 0);
        double least = energy(x);
        while (true) {
            Index i = 0;
            while (i < sites && ++x[i] == labels) x[i++] = 0;
            if (i == sites) return least;
            least = std::min(least, energy(x));
        }
    }

    std::unique_ptr<LabelTrws> solver(bool single) const {
        const Neighbors neighbors(sites, ends.data(), weights.data(),
                                  static_cast<Index>(weights.size()));
        return label_trws(neighbors, {costs.data(), nullptr, metric, nullptr, {}}, single);
    }
};

Problem random_graph(const LabelMetric& metric, bool tree, std::mt19937& random) {
    Problem problem{5, metric.labels(), {}, {}, {}, metric};
    std::normal_distribution<> normal;
    for (Index j = 1; j < problem.sites; ++j) {
        for (Index i = tree ? j - 1 - static_cast<Index>(random() % j) : 0; i < j; ++i) {
            problem.ends.insert(problem.ends.end(), {i, j});
            problem.weights.push_back(normal(random));
            if (tree) break;
        }
    }
    for (Index k = 0; k < problem.sites * problem.labels; ++k) {
        problem.costs.push_back(2.0 * normal(random));
    }
    return problem;
}

void bounds_are_bounds() {
    std::mt19937 random(2);
    for (int round = 0; round < 40; ++round) {
        for (const LabelMetric& metric :
             {LabelMetric(Kind::kPotts, 3, 1.0), LabelMetric(Kind::kLinear, 4, 2.0),
              LabelMetric(Kind::kQuadratic, 4, 5.0), random_table(3, random)}) {
            const bool tree = round % 2 == 0, single = round % 4 < 2;
            const Problem problem = random_graph(metric, tree, random);
            const auto solver = problem.solver(single);
            solver->run(30, 0.0, 1, kGoOn);
            const double least = problem.minimum();
            CHECK(solver->bound() - solver->rounding_error() <= least + 1e-12);
            CHECK(solver->energy() >= least - 1e-9);
            CHECK(std::abs(problem.energy(solver->best()) - solver->energy()) < 1e-9);
            if (tree) CHECK(std::abs(solver->bound() - least) < (single ? 1e-5 : 1e-9));
        }
    }
}

// A grid of 40 x 33 sites, 8 neighbors: lines by several threads.
void threads_change_nothing() {
    std::mt19937 random(3);
    const Point shape{40, 33};
    const LabelMetric metric(Kind::kLinear, 5, 3.0);
    std::vector<double> costs(static_cast<std::size_t>(volume(shape) * metric.labels()));
    for (double& cost : costs) cost = std::normal_distribution<>()(random);
    const GridWeights weights(shape, {{0, 1}, {1, -1}, {1, 0}, {1, 1}, {2, -2}},
                              {0.5, 0.2, 0.5, 0.2, -0.1}, {}, {}, {});
    std::vector<std::uint16_t> labels;
    double bound = 0.0;
    for (const Index threads : {1, 2, 3, 5}) {
        const auto solver =
            label_trws(Neighbors(weights), {costs.data(), nullptr, metric, nullptr, {}}, false);
        solver->run(5, 0.0, threads, kGoOn);
        if (threads == 1) {
            labels = solver->best();
            bound = solver->bound();
        }
        CHECK(solver->best() == labels && solver->bound() == bound);
        bool stopped = false;
        try {
            solver->run(5, 0.0, threads, kStop);
        } catch (const Interrupted&) {
            stopped = true;
        }
        CHECK(stopped && solver->bound() == bound);
        solver->run(5, 0.0, threads, kGoOn);
        CHECK(solver->best() == labels && solver->bound() == bound);
    }
}

}  // namespace

int main() {
    messages_are_what_they_are_defined_to_be();
    bounds_are_bounds();
    threads_change_nothing();
}
