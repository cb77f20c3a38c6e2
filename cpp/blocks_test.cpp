// Random sequences of steps on small networks cut into blocks, each followed by the blocks' own
// slow self-check, under the sanitizers; every sequence ends in what one block finds.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <utility>

#include "block_flow.h"
#include "check.h"

using namespace dope;

namespace {

std::vector<double> random_unary(std::mt19937& random, std::size_t sites) {
    std::vector<double> unary(sites);
    const int kind = static_cast<int>(random() % 3);
    for (double& u : unary) {
        u = static_cast<double>(static_cast<int>(random() % 41) - 20);
        if (kind == 1 && random() % 9 == 0) u *= 1e9;
        if (kind == 2 && random() % 3 != 0) u = 0.0;
    }
    return unary;
}

// Blocks, and the sites of each in the order in which its arrays hold them.
struct Case {
    BlockFlow& blocks;
    Flow& whole;
    std::vector<std::vector<std::size_t>> sites;
};

class Walk {
  public:
    Walk(std::mt19937& random, const Case& of)
        : random_(random), blocks_(of.blocks), whole_(of.whole), sites_(of.sites) {
        for (const auto& places : sites_) number_ += places.size();
        for (std::size_t part = 0; part < blocks_.parts(); ++part) blocks_.fill(part, Poll());
        blocks_.finish();
        unary_ = random_unary(random_, number_);
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            CHECK(blocks_.sites(k) == sites_[k].size());
            blocks_.wall_in(k);
            blocks_.price(k, of_block(k, unary_).data(), nullptr);
        }
        balance_any();
        for (std::size_t k = 0; k < sites_.size(); ++k) solve(k);
    }

    void wander(int turns) {
        for (int turn = 0; turn < turns; ++turn) {
            const auto kind = random_() % 11;
            if (kind < 5) push();
            if (kind == 5) merge_any();
            if (kind == 6 || kind == 7) merge();
            if (kind == 8) discharge();
            if (kind == 9) price();
            if (kind == 10) bracket();
        }
    }

    // By one way or the other, to the minimum; `merging` ends after a merge per block at most.
    void finish(bool merging) {
        for (int turn = 0; !certified(); ++turn) {
            CHECK(turn < 1000);
            if (merging) {
                merge();
            } else {
                discharge();
            }
        }
        const auto expected = std::make_unique<bool[]>(number_);
        whole_.minimize(unary_.data(), Poll());
        whole_.labels(false, expected.get(), Poll());
        ExactSum bound;
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            bound.add(blocks_.bound(k));
            const auto labels = std::make_unique<bool[]>(sites_[k].size());
            blocks_.labels(k, true, labels.get());
            for (std::size_t i = 0; i < sites_[k].size(); ++i) {
                CHECK(labels[i] == expected[sites_[k][i]]);
            }
        }
        CHECK(bound.digits() == whole_.minimum().digits());
    }

    void price() {
        const std::vector<double> before = unary_;
        const std::vector<double> other = random_unary(random_, number_);
        const std::size_t rare = 1 + random_() % 30;
        for (std::size_t i = 0; i < number_; ++i) {
            if (random_() % rare == 0) unary_[i] = other[i];
        }
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            blocks_.price(k, of_block(k, unary_).data(), of_block(k, before).data());
        }
        solve_changed();
    }

    // All that flows goes over a wall, and starts a new flow of the same blocks where this one is.
    std::vector<WallFlow> flows() const {
        std::vector<WallFlow> found;
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            for (const WallFlow& flow : blocks_.flows(k)) found.push_back(flow);
        }
        return found;
    }
    void impose(const std::vector<WallFlow>& flows) {
        blocks_.impose(flows);
        solve_changed();
    }
    const std::vector<double>& unary() const { return unary_; }
    void price_as(const std::vector<double>& unary) {
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            blocks_.price(k, of_block(k, unary).data(), of_block(k, unary_).data());
        }
        unary_ = unary;
        solve_changed();
    }
    // Cuts within the cut that was found: walls are back, and one block after the other is solved,
    // while those that are not solved yet stay as they were left.
    void nest() {
        for (std::size_t k = 0; k < sites_.size(); ++k) blocks_.part(k);
        blocks_.regroup();
        for (std::size_t k = 0; k < sites_.size(); ++k) blocks_.wall_in(k);
        balance_any();
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            CHECK(blocks_.group(k) == k);
            solve(k);
        }
    }
    bool certified() {
        std::int64_t conflicts = 0;
        for (std::size_t k = 0; k < sites_.size(); ++k) conflicts += blocks_.survey(k).conflicts;
        return conflicts == 0 && blocks_.certify();
    }

  private:
    // Before anything is solved: labels and bounds are the same with any flow.
    void balance_any() {
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            if (random_() % 2 == 0) blocks_.balance(k, random_() % 2 == 0);
        }
    }
    std::vector<double> of_block(std::size_t k, const std::vector<double>& all) const {
        std::vector<double> values;
        for (const std::size_t site : sites_[k]) values.push_back(all[site]);
        return values;
    }

    std::vector<std::size_t> groups() const {
        std::vector<std::size_t> names;
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            if (blocks_.group(k) == k) names.push_back(k);
        }
        return names;
    }

    void solve(std::size_t g) {
        blocks_.solve(g, Poll());
        blocks_.check(g);
    }
    void solve_changed() {
        for (const std::size_t g : blocks_.changed()) solve(g);
    }

    void push() {
        if (certified()) return;
        CHECK(blocks_.push().nearest() > 0.0);
        solve_changed();
    }

    void merge() {
        if (certified()) return;
        const std::vector<Dispute> disputes = blocks_.disputes();
        CHECK(!disputes.empty());
        const Dispute& chosen = disputes[random_() % disputes.size()];
        join(static_cast<std::size_t>(chosen.one), static_cast<std::size_t>(chosen.other));
    }
    // Groups that may agree, or not even be neighbors.
    void merge_any() {
        const std::vector<std::size_t> names = groups();
        const std::size_t one = names[random_() % names.size()];
        const std::size_t other = names[random_() % names.size()];
        if (one != other) join(one, other);
    }
    void join(std::size_t one, std::size_t other) {
        blocks_.merge(one, other);
        CHECK(blocks_.group(one) == std::min(one, other));
        CHECK(blocks_.group(other) == std::min(one, other));
        solve(std::min(one, other));
        solve_changed();
    }

    void discharge() {
        if (certified()) return;
        blocks_.measure();
        for (const std::size_t g : groups()) {
            solve_changed();
            blocks_.discharge(g, Poll());
            blocks_.check(g);
            blocks_.deliver();
        }
        solve_changed();
    }

    void bracket() {
        for (const std::size_t g : groups()) {
            std::size_t sites = 0;
            for (const std::size_t k : blocks_.members(g)) sites += sites_[k].size();
            const auto low = std::make_unique<bool[]>(sites);
            const auto high = std::make_unique<bool[]>(sites);
            blocks_.bracket(g, false, low.get(), Poll());
            blocks_.bracket(g, true, high.get(), Poll());
            for (std::size_t i = 0; i < sites; ++i) CHECK(!low[i] || high[i]);
            blocks_.check(g);
        }
    }

    std::mt19937& random_;
    BlockFlow& blocks_;
    Flow& whole_;
    std::vector<std::vector<std::size_t>> sites_;
    std::size_t number_ = 0;
    std::vector<double> unary_;
};

// Blocks that live apart: each in a network of its own, which holds the others' sites but is never
// asked to solve them. What crosses walls is told from one to the other, as over a board.
class Apart {
  public:
    using Make = std::function<std::unique_ptr<BlockFlow>()>;

    Apart(std::mt19937& random, const Case& of, const std::vector<double>& unary, Make make)
        : random_(random), whole_(of.whole), sites_(of.sites), unary_(unary), make_(make) {
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            homes_.push_back(make_());
            BlockFlow& home = *homes_[k];
            for (std::size_t part = 0; part < home.parts(); ++part) home.fill(part, Poll());
            home.finish();
            for (std::size_t j = 0; j < sites_.size(); ++j) home.wall_in(j);
            std::vector<double> mine;
            for (const std::size_t site : sites_[k]) mine.push_back(unary_[site]);
            home.price(k, mine.data(), nullptr);
            walls_.resize(std::max(walls_.size(), sites_[k].back() + 1), 0);
        }
        inbox_.resize(sites_.size());
    }

    void finish() {
        for (int turn = 0; visit_all(); ++turn) CHECK(turn < 10000);
        const auto expected = std::make_unique<bool[]>(unary_.size());
        whole_.minimize(unary_.data(), Poll());
        whole_.labels(false, expected.get(), Poll());
        ExactSum bound;
        for (std::size_t k = 0; k < sites_.size(); ++k) bound.add(homes_[k]->bound(k));
        CHECK(bound.digits() == whole_.minimum().digits());
        const std::vector<std::vector<std::int64_t>> marks = reached();
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            maybe_fold(k);
            homes_[k]->reach(k, marks[k]);
            const auto labels = std::make_unique<bool[]>(sites_[k].size());
            homes_[k]->labels(k, true, labels.get());
            for (std::size_t i = 0; i < sites_[k].size(); ++i) {
                CHECK(labels[i] == expected[sites_[k][i]]);
            }
        }
    }

  private:
    std::size_t home_of(std::size_t site) const {
        std::size_t k = 0;
        while (!std::binary_search(sites_[k].begin(), sites_[k].end(), site)) ++k;
        return k;
    }

    // One block after the other; whether anything was sent, or any distance has grown.
    bool visit_all() {
        bool moved = false;
        for (std::size_t k = 0; k < sites_.size(); ++k) {
            BlockFlow& home = *homes_[k];
            home.carry(k, inbox_[k]);
            inbox_[k].clear();
            home.solve(k, Poll());
            home.check(k);
            maybe_fold(k);
            std::vector<Distance> around;
            for (std::size_t j = 0; j < sites_.size(); ++j) {
                for (const std::size_t site : j == k ? std::vector<std::size_t>() : sites_[j]) {
                    if (walls_[site] >= 0) {
                        around.push_back({static_cast<std::int64_t>(site), walls_[site]});
                    }
                }
            }
            homes_[k]->surround(around);
            moved = discharge(k) || moved;
            moved = measure(k) || moved;
        }
        return moved;
    }

    // The bytes of a block and of its stores are all of it.
    void maybe_fold(std::size_t k) {
        if (random_() % 3 != 0) return;
        const std::vector<char> saved = homes_[k]->save(k);
        std::vector<std::vector<std::byte>> kept;
        for (const auto& store : homes_[k]->stores()) kept.emplace_back(store.begin(), store.end());
        homes_[k] = make_();
        homes_[k]->finish();
        const auto stores = homes_[k]->stores();
        CHECK(stores.size() == kept.size());
        for (std::size_t i = 0; i < kept.size(); ++i) {
            CHECK(stores[i].size() == kept[i].size());
            std::copy(kept[i].begin(), kept[i].end(), stores[i].begin());
        }
        homes_[k]->load(k, saved.data(), saved.size());
        homes_[k]->check(k);
    }

    bool discharge(std::size_t k) {
        std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> sent;
        for (const WallFlow& one : homes_[k]->wall_flows(k))
            sent[{one.first, one.second}] -= one.amount;
        homes_[k]->discharge(k, Poll());
        homes_[k]->check(k);
        for (const WallFlow& one : homes_[k]->wall_flows(k))
            sent[{one.first, one.second}] += one.amount;
        bool some = false;
        for (const auto& [ends, amount] : sent) {
            if (amount == 0) continue;
            some = true;
            inbox_[home_of(static_cast<std::size_t>(ends.second))].push_back(
                {ends.second, ends.first, -amount});
        }
        return some;
    }

    // No site is farther than there are sites: what is, reaches no sink.
    bool measure(std::size_t k) {
        homes_[k]->measure_from(k, static_cast<std::int32_t>(unary_.size()));
        bool grown = false;
        for (const Distance& one : homes_[k]->border(k)) {
            std::int32_t& known = walls_[static_cast<std::size_t>(one.site)];
            CHECK(one.walls == -1 || one.walls >= known);  // they never shrink
            CHECK((one.side < 0) == (one.walls == 0));
            grown = grown || one.walls != known;
            known = one.walls;
        }
        return grown;
    }

    // The free sites that sources of other blocks lead to.
    std::vector<std::vector<std::int64_t>> reached() {
        std::vector<std::vector<std::int64_t>> marks(sites_.size());
        for (bool more = true; more;) {
            more = false;
            for (std::size_t k = 0; k < sites_.size(); ++k) {
                for (const std::int64_t site : homes_[k]->reach(k, marks[k])) {
                    std::vector<std::int64_t>& there =
                        marks[home_of(static_cast<std::size_t>(site))];
                    if (std::find(there.begin(), there.end(), site) != there.end()) continue;
                    there.push_back(site);
                    more = true;
                }
            }
        }
        return marks;
    }

    std::mt19937& random_;
    Flow& whole_;
    std::vector<std::vector<std::size_t>> sites_;
    std::vector<double> unary_;
    Make make_;
    std::vector<std::unique_ptr<BlockFlow>> homes_;
    std::vector<std::vector<WallFlow>> inbox_;
    std::vector<std::int32_t> walls_;  // of all sites, -1 where none is known to be reached
};

template <class MakeBlocks, class MakeWhole>
void walk(std::mt19937& random, const std::vector<std::vector<std::size_t>>& sites,
          MakeBlocks&& make_blocks, MakeWhole&& make_whole) {
    for (const int bits : {16, 32, 64}) {
        const auto blocks = make_blocks(bits);
        const auto whole = make_whole(bits);
        Walk one(random, {*blocks, *whole, sites});
        one.wander(25);
        one.finish(random() % 2 == 0);
        one.price();
        one.finish(random() % 2 == 0);
        const auto others = make_blocks(bits);
        Walk other(random, {*others, *whole, sites});
        other.price_as(one.unary());
        other.impose(one.flows());
        other.finish(random() % 2 == 0);
        if (sites.size() <= 12) {  // each has a network of its own
            Apart(random, {*blocks, *whole, sites}, one.unary(), [&] {
                return make_blocks(bits);
            }).finish();
        }
        one.nest();
    }
}

void test_grid(std::mt19937& random, const Point& shape, const std::vector<Point>& offsets) {
    std::vector<double> factors;
    for (std::size_t m = 0; m < offsets.size(); ++m) {
        factors.push_back(static_cast<double>(random() % 9));
    }
    const GridWeights weights(shape, offsets, factors, std::nullopt, {}, {});
    std::vector<Point> cuts(shape.size());
    for (std::size_t a = 0; a < shape.size(); ++a) {
        for (Index at = 1; at < shape[a]; ++at) {
            if (random() % 3 == 0) cuts[a].push_back(at);
        }
    }
    // Blocks are numbered in row-major order, as are the sites in each.
    std::vector<std::vector<std::size_t>> sites(1);
    for (const Point& places : cuts) sites.resize(sites.size() * (places.size() + 1));
    std::size_t flat = 0;
    for_each_run(whole(shape), [&](Point p, Index length) {
        for (Index t = 0; t < length; ++t, ++p.back(), ++flat) {
            std::size_t k = 0;
            for (std::size_t a = 0; a < shape.size(); ++a) {
                const auto before =
                    std::upper_bound(cuts[a].begin(), cuts[a].end(), p[a]) - cuts[a].begin();
                k = k * (cuts[a].size() + 1) + static_cast<std::size_t>(before);
            }
            sites[k].push_back(flat);
        }
    });
    walk(
        random, sites, [&](int bits) { return block_grid_flow(weights, 1.0, bits, cuts); },
        [&](int bits) { return grid_flow(weights, 1.0, bits, Poll()); });
}

void test_graph(std::mt19937& random, std::size_t number, std::size_t rare) {
    std::vector<Vertex> ends;
    std::vector<double> weights;
    for (std::size_t i = 0; i < number; ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (random() % rare) continue;
            ends.push_back(static_cast<Vertex>(i));
            ends.push_back(static_cast<Vertex>(j));
            weights.push_back(static_cast<double>(random() % 15));
        }
    }
    std::vector<std::vector<std::size_t>> sites(1 + random() % 6);
    std::vector<std::int32_t> members(number);
    for (std::size_t i = 0; i < number; ++i) {
        const std::size_t k = i < sites.size() ? i : random() % sites.size();
        members[i] = static_cast<std::int32_t>(k);
        sites[k].push_back(i);
    }
    const auto count = static_cast<std::int64_t>(number);
    walk(
        random, sites,
        [&](int bits) {
            return block_graph_flow(count, ends.data(), weights.data(), weights.size(), 1.0, bits,
                                    members, sites.size());
        },
        [&](int bits) {
            return graph_flow(count, ends.data(), weights.data(), weights.size(), 1.0, bits);
        });
}

}  // namespace

int main() {
    std::mt19937 random(7);
    std::vector<Point> wide;
    for (Index a = -3; a <= 3; ++a) {
        for (Index b = -3; b <= 3; ++b) {
            if (a > 0 || (a == 0 && b > 0)) wide.push_back({a, b});
        }
    }
    std::vector<Point> ball;
    for (Index a = -1; a <= 1; ++a) {
        for (Index b = -1; b <= 1; ++b) {
            for (Index c = -1; c <= 1; ++c) {
                if (Point{a, b, c} > Point{0, 0, 0}) ball.push_back({a, b, c});
            }
        }
    }
    for (int turn = 0; turn < 20; ++turn) {
        test_grid(random, {1}, {{1}});
        test_grid(random, {23}, {{1}, {-2}});
        test_grid(random, {8, 9}, {{0, 1}, {1, 0}});
        test_grid(random, {7, 8}, {{0, 1}, {1, 0}, {1, 1}, {1, -1}});
        test_grid(random, {3, 4, 5}, {{0, 0, 1}, {0, 1, 0}, {-1, 0, 0}});
        test_grid(random, {7, 6}, {{0, 1}, {1, 0}, {1, 1}, {1, -1}, {2, 1}, {-2, 3}, {9, 9}});
        test_grid(random, {9, 10}, wide);
        test_grid(random, {4, 3, 5}, ball);
        test_graph(random, 6 + random() % 40, 1 + random() % 12);
    }
    return 0;
}
