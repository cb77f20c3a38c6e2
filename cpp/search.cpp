#include "search.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <thread>

#include "pause.h"

namespace dope {

namespace {

using Labelling = std::vector<std::int8_t>;

// Measured on curvature A1 to A5, deconvolution, dtf, G-set and Beasley's QUBOs. Temperatures are
// parts of the most that a flip at a typical site can cost. At a third a grid that attracts is
// about to order itself, and nearly everything moves; at 1/24 little does. At 1/100 nothing is
// left to gain but by the flips downhill that follow; 1/30 to 1/300 ended as low.
constexpr double kHot[] = {3.0, 6.0, 12.0, 24.0};
constexpr double kCold = 100.0;
constexpr int kWalkers = 4;

// Short walks gain most for their time on grids, long ones on random graphs. Each length gets work
// in proportion to what it gained, of late, and a part of what all of them did.
constexpr Index kSweeps[] = {100, 400, 1600, 6400, 25600};
constexpr std::size_t kLengths = std::size(kSweeps);
constexpr double kFading = 0.98, kPrior = 0.1;

// An epoch ends after so many rounds without a gain, if they were as much work as all before.
constexpr Index kPatience = 32;

// A walk takes no more than this part of all sweeps.
constexpr Index kParts = 64;

// Exact moves pay where sites have few neighbors, most of all on graphs that are nearly trees.
constexpr double kFewNeighbors = 8.0, kTreeNeighbors = 2.6;
constexpr int kWidth = 6;
constexpr Index kRarely = 4;  // every so many rounds, where it is no tree
// Up to which the whole is solved at once, without a search; on few sites more.
constexpr int kWholeWidth = 12;
constexpr Site kFewSites = 16;

// Tabu search pays where a site neighbors at least every fiftieth other.
constexpr double kTabuShare = 0.02;
constexpr Site kMostTabuSites = 20000;
constexpr Index kTabuSteps = 10;  // for every sweep
constexpr Index kTabuShake = 20;  // sweeps before it

// How long walks may be follows from the seconds, not from the clock.
constexpr double kVisitsPerSecond = 2e8;

Index expected_sweeps(double seconds, Index sites) {
    constexpr double kMost = 1e15;
    const double sweeps =
        seconds * kVisitsPerSecond / static_cast<double>(std::max<Index>(sites, 1));
    return static_cast<Index>(std::clamp(sweeps, 1.0, kMost));
}

class Crossing {
  public:
    Crossing(const WholePairs& pairs, const std::vector<std::int32_t>& unary,
             const Labelling& start, std::uint64_t seed, Index threads, const Poll& poll)
        : pairs_(pairs),
          unary_(unary),
          seed_(seed),
          threads_(std::clamp<Index>(threads, 1, kWalkers)),
          poll_(poll),
          neighbors_(static_cast<double>(pairs.arcs()) / std::max<Site>(pairs.sites(), 1)),
          typical_(pairs.typical_change(unary)),
          best_(pairs, unary),
          now_(pairs, unary) {
        swappable_ = std::all_of(unary.begin(), unary.end(), [](auto u) { return u == 0; });
        best_.stand(start);
        best_.descend();
        now_.stand_with(best_);
    }

    const Labelling& labels() const { return best_.spins(); }

    // All at once, if the whole is narrow enough.
    bool solve() {
        const Site sites = pairs_.sites();
        if (sites > kFewSites && neighbors_ > kFewNeighbors) return false;
        LowWidth low(pairs_, unary_);
        Lots lots(seed_);
        return low.solve(best_, sites > kFewSites ? kWholeWidth : kFewSites - 1, lots);
    }

    void round(Index sweeps) {
        if (walkers_.empty()) {
            for (int k = 0; k < kWalkers; ++k) walkers_.emplace_back(pairs_, unary_);
        }
        const Index most = std::max<Index>(sweeps / kParts, 1);
        std::size_t lengths = 1;
        while (lengths < kLengths && kSweeps[lengths - 1] < most) ++lengths;
        const std::size_t length = next_length(lengths);
        const std::int64_t energy = now_.energy(), work = done().work;
        walk_all(std::min(kSweeps[length], most));
        for (const Walker& walker : walkers_) join(now_, walker.spins.spins());
        ++done_.rounds;
        told(length, static_cast<double>(energy - now_.energy()),
             static_cast<double>(done().work - work));
    }

    void finish() { join(best_, now_.spins()); }

    Search::Done done() const {
        Search::Done told = done_;
        told.work = best_.work() + now_.work();
        for (const Walker& walker : walkers_) told.work += walker.work();
        return told;
    }

  private:
    struct Walker {
        Walker(const WholePairs& pairs, const std::vector<std::int32_t>& unary)
            : spins(pairs, unary) {}

        std::int64_t work() const { return spins.work() + (low ? low->work() : 0); }

        Spins spins;
        std::unique_ptr<LowWidth> low;  // where it pays
        Labelling found;
    };

    // Where no site has a price of its own, all labels may as well be the other ones.
    void join(Spins& one, const Labelling& other) const {
        one.cross(other);
        if (!swappable_) return;
        Labelling swapped(other);
        for (auto& spin : swapped) spin = static_cast<std::int8_t>(-spin);
        one.cross(swapped);
    }

    // That of the most to gain, as far as is known, for its work.
    std::size_t next_length(std::size_t lengths) const {
        double all = 1.0;
        for (const Length& one : lengths_) all += one.gain;
        std::size_t best = 0;
        double most = -1.0;
        for (std::size_t k = 0; k < lengths; ++k) {
            const double worth = (lengths_[k].gain + kPrior * all) / (lengths_[k].work + 1.0);
            if (worth > most) {
                most = worth;
                best = k;
            }
        }
        return best;
    }

    void told(std::size_t length, double gain, double work) {
        for (Length& one : lengths_) {
            one.gain *= kFading;
            one.work *= kFading;
        }
        lengths_[length].gain += gain;
        lengths_[length].work += work;
        work_ += work;
        ++waited_;
        if (gain > 0.0) {
            waited_ = 0;
            until_gain_ = work_;
        }
        if (waited_ >= kPatience && work_ >= 2.0 * until_gain_) next_epoch();
    }

    // From what crossing gave, if that is new, else from anywhere.
    void next_epoch() {
        const std::int64_t before = std::min(best_.energy(), now_.energy());
        join(best_, now_.spins());
        ++done_.epochs;
        waited_ = 0;
        work_ = until_gain_ = 0.0;
        if (best_.energy() < before) {
            now_.stand_with(best_);
            return;
        }
        Lots lots(lot(kWalkers));
        Labelling drawn(best_.spins().size());
        for (auto& spin : drawn) spin = lots.bits() >> 63 ? -1 : 1;
        now_.stand(drawn);
    }

    std::uint64_t lot(int walker) const {
        return mixed(seed_ + mixed(static_cast<std::uint64_t>(done_.rounds) * (kWalkers + 1) +
                                   static_cast<std::uint64_t>(walker)));
    }

    void walk(int k, Index sweeps) {
        Walker& walker = walkers_[k];
        Spins& spins = walker.spins;
        Lots lots(lot(k));
        spins.stand_with(now_);
        const double hot = typical_ / kHot[k], cold = typical_ / kCold;
        const bool dense = pairs_.sites() <= kMostTabuSites &&
                           neighbors_ >= kTabuShare * static_cast<double>(pairs_.sites());
        if (dense && k % 2 == 1) {
            spins.anneal({hot, cold, std::min(kTabuShake, sweeps)}, lots);
            spins.tabu(kTabuSteps * sweeps, lots);
        } else {
            spins.anneal({hot, cold, sweeps}, lots);
        }
        spins.descend();
        const bool tree = neighbors_ <= kTreeNeighbors, few = neighbors_ <= kFewNeighbors;
        if (tree ? k % 2 == 1 : few && k == 3 && done_.rounds % kRarely == 0) {
            if (!walker.low) walker.low = std::make_unique<LowWidth>(pairs_, unary_);
            walker.low->move(spins, kWidth, lots);
        }
        // Crossed here already: what all of them do by turns is less then.
        walker.found = spins.spins();
        spins.stand_with(now_);
        spins.cross(walker.found);
    }

    // Each walker once, by so many threads; the calling one asks whether to stop.
    void walk_all(Index sweeps) {
        std::atomic<int> next{0};
        std::atomic<bool> stop{false};
        std::mutex lock;
        std::condition_variable ended;
        std::exception_ptr error;
        int at_work = static_cast<int>(threads_) - 1;
        const auto work = [&] {
            try {
                for (int k; (k = next.fetch_add(1)) < kWalkers && !stop.load();) walk(k, sweeps);
            } catch (...) {
                stop.store(true);
                const std::lock_guard held(lock);
                if (!error) error = std::current_exception();
            }
        };
        const Poll stopped = [&] { return stop.load(); };
        std::vector<std::thread> others;
        for (Index k = 1; k < threads_; ++k) {
            others.emplace_back([&] {
                const PollHere here(stopped);
                work();
                const std::lock_guard held(lock);
                --at_work;
                ended.notify_one();
            });
        }
        work();
        {
            std::unique_lock held(lock);
            while (!ended.wait_for(held, std::chrono::milliseconds(5), [&] { return !at_work; })) {
                held.unlock();
                if (poll_()) stop.store(true);
                held.lock();
            }
        }
        for (auto& other : others) other.join();
        if (error) std::rethrow_exception(error);
        if (stop.load() || poll_()) throw Interrupted();
    }

    const WholePairs& pairs_;
    const std::vector<std::int32_t>& unary_;
    std::uint64_t seed_;
    Index threads_;
    const Poll& poll_;
    double neighbors_, typical_;
    bool swappable_ = false;
    Spins best_, now_;
    std::vector<Walker> walkers_;
    struct Length {
        double gain = 0.0, work = 0.0;  // of late
    };
    std::array<Length, kLengths> lengths_{};
    Index waited_ = 0;                      // rounds without a gain
    double work_ = 0.0, until_gain_ = 0.0;  // of this epoch
    Search::Done done_;
};

}  // namespace

Search::Done Search::run(const double* unary, std::uint8_t* labels, const Limits& limits,
                         std::uint64_t seed, Index threads, const Poll& poll) const {
    using Clock = std::chrono::steady_clock;
    const auto begun = Clock::now();
    const bool timed = std::isfinite(limits.seconds);
    const std::vector<std::int32_t> whole = pairs_.unary(unary);
    Labelling start(whole.size());
    for (std::size_t i = 0; i < start.size(); ++i) start[i] = labels[i] ? -1 : 1;
    Crossing crossing(pairs_, whole, start, seed, threads, poll);
    const auto tell = [&] {
        for (std::size_t i = 0; i < start.size(); ++i) labels[i] = crossing.labels()[i] < 0;
    };
    Done done;
    try {
        done.exact = crossing.solve();
        const std::int64_t before = crossing.done().work;
        const auto left = [&] {
            if (timed) {
                return std::chrono::duration<double>(Clock::now() - begun).count() < limits.seconds;
            }
            return crossing.done().work - before < limits.sweeps * sites();
        };
        const Index sweeps = timed ? expected_sweeps(limits.seconds, sites()) : limits.sweeps;
        while (!done.exact && sites() > 0 && left()) crossing.round(sweeps);
        crossing.finish();
    } catch (const Interrupted&) {
        const Poll go_on;
        const PollHere here(go_on);
        crossing.finish();
        tell();
        throw;
    }
    tell();
    const bool exact = done.exact;
    done = crossing.done();
    done.exact = exact;
    return done;
}

}  // namespace dope
