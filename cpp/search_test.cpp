// Searches on small grids and graphs, beside brute force: none raises an energy, exact moves are
// exact, and threads change nothing.
#include "search.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>

#include "check.h"

using namespace dope;

namespace {

using Labelling = std::vector<std::int8_t>;

const Poll kGoOn = [] { return false; };

struct Problem {
    Index sites;
    std::vector<double> unary;
    std::vector<std::int64_t> ends;
    std::vector<double> weights;

    Neighbors neighbors() const {
        return Neighbors(sites, ends.data(), weights.data(), static_cast<Index>(weights.size()));
    }

    double energy(const std::uint8_t* y) const {
        double sum = 0.0;
        for (Index i = 0; i < sites; ++i) sum += y[i] ? unary[i] : 0.0;
        for (std::size_t e = 0; e < weights.size(); ++e) {
            if (y[ends[2 * e]] != y[ends[2 * e + 1]]) sum += weights[e];
        }
        return sum;
    }

    double minimum() const {
        double least = energy(std::vector<std::uint8_t>(static_cast<std::size_t>(sites)).data());
        std::vector<std::uint8_t> y(static_cast<std::size_t>(sites));
        for (Index bits = 1; bits < Index{1} << sites; ++bits) {
            for (Index i = 0; i < sites; ++i) y[i] = (bits >> i) & 1;
            least = std::min(least, energy(y.data()));
        }
        return least;
    }
};

// Whole numbers, also of pairs that are listed twice.
Problem graph(Index sites, Index pairs, std::mt19937& draw) {
    std::uniform_int_distribution<int> weight(-9, 9);
    std::uniform_int_distribution<Index> end(0, sites - 1);
    Problem made{sites, {}, {}, {}};
    for (Index i = 0; i < sites; ++i) made.unary.push_back(weight(draw));
    while (static_cast<Index>(made.weights.size()) < pairs) {
        const Index i = end(draw), j = end(draw);
        if (i == j) continue;
        made.ends.insert(made.ends.end(), {i, j});
        made.weights.push_back(weight(draw));
    }
    return made;
}

std::vector<std::uint8_t> bytes(const Labelling& spins) {
    std::vector<std::uint8_t> y;
    for (const auto spin : spins) y.push_back(spin < 0);
    return y;
}

Labelling drawn(Index sites, std::mt19937& draw) {
    Labelling made(static_cast<std::size_t>(sites));
    for (auto& spin : made) spin = draw() % 2 ? -1 : 1;
    return made;
}

// What it keeps of flips and energy is what the labels cost.
void kept(const Problem& problem, const WholePairs& pairs, const Spins& spins) {
    const auto y = bytes(spins.spins());
    const double here = problem.energy(y.data());
    for (Index i = 0; i < problem.sites; ++i) {
        if (std::abs(spins.costs()[i]) > 1 << 29) continue;  // decided
        auto flipped = y;
        flipped[i] ^= 1;
        const double cost = problem.energy(flipped.data()) - here;
        CHECK(static_cast<double>(spins.costs()[i]) == cost * pairs.scale());
    }
}

void no_move_raises_the_energy() {
    std::mt19937 draw(1);
    for (int round = 0; round < 60; ++round) {
        const Index sites = 2 + static_cast<Index>(draw() % 30);
        const Problem problem = graph(sites, static_cast<Index>(draw() % 90), draw);
        const WholePairs pairs(problem.neighbors());
        const auto unary = pairs.unary(problem.unary.data());
        Spins spins(pairs, unary);
        LowWidth low(pairs, unary);
        Lots lots(static_cast<std::uint64_t>(round));
        spins.stand(drawn(sites, draw));
        const auto falls = [&](auto&& move) {
            const std::int64_t before = spins.energy();
            move();
            CHECK(spins.energy() <= before);
            kept(problem, pairs, spins);
        };
        for (const int width : {1, 2, 4}) falls([&] { low.move(spins, width, lots); });
        falls([&] { spins.descend(); });
        falls([&] { spins.tabu(200, lots); });
        const Labelling best = spins.spins();
        spins.anneal({pairs.typical_change(unary), 1.0, 20}, lots);
        kept(problem, pairs, spins);
        falls([&] { spins.cross(best); });
        Spins other(pairs, unary);
        other.stand(best);
        CHECK(spins.energy() <= other.energy());
    }
}

void what_is_narrow_is_solved() {
    std::mt19937 draw(2);
    for (int round = 0; round < 40; ++round) {
        const Index sites = 1 + static_cast<Index>(draw() % 12);
        const Problem problem = graph(sites, sites > 1 ? static_cast<Index>(draw() % 30) : 0, draw);
        std::vector<std::uint8_t> y(static_cast<std::size_t>(sites));
        const auto done = Search(problem.neighbors())
                              .run(problem.unary.data(), y.data(), {1, HUGE_VAL}, 0, 1, kGoOn);
        CHECK(done.exact && problem.energy(y.data()) == problem.minimum());
    }
}

void threads_change_nothing() {
    std::mt19937 draw(3);
    for (const Index pairs : {150, 300, 3000}) {
        const Problem problem = graph(150, pairs, draw);
        const Search search(problem.neighbors());
        std::vector<std::uint8_t> expected;
        for (const Index threads : {1, 2, 5}) {
            std::vector<std::uint8_t> y(150);
            search.run(problem.unary.data(), y.data(), {2000, HUGE_VAL}, 7, threads, kGoOn);
            if (expected.empty()) expected = y;
            CHECK(y == expected);
        }
    }
}

void a_stop_leaves_the_best() {
    std::mt19937 draw(4);
    const Problem problem = graph(400, 2000, draw);
    const Search search(problem.neighbors());
    for (const Index threads : {1, 3}) {
        std::vector<std::uint8_t> y(400);
        const double before = problem.energy(y.data());
        std::atomic<int> asked{0};
        const Poll poll = [&] { return ++asked > 20; };
        const PollHere here(poll);
        bool stopped = false;
        try {
            search.run(problem.unary.data(), y.data(), {1 << 30, HUGE_VAL}, 0, threads, poll);
        } catch (const Interrupted&) {
            stopped = true;
        }
        CHECK(stopped && problem.energy(y.data()) < before);
    }
}

}  // namespace

int main() {
    no_move_raises_the_energy();
    what_is_narrow_is_solved();
    threads_change_nothing();
    a_stop_leaves_the_best();
}
