// A fuzzer of flow.h, for libFuzzer: the bytes decide on a grid or a graph, its weights, and a
// sequence of calls. Each answer is compared with a cold flow on the list of pairs, with energies
// added up plainly, and, on few sites, with brute force. Only std::invalid_argument may be thrown,
// and only where the input is bad.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <set>

#include "capacities.h"
#include "flow.h"
#include "flow_oracle.h"

using namespace dope;

namespace {

#define REQUIRE(condition, what)                                                                \
    do {                                                                                        \
        if (!(condition)) {                                                                     \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, std::string(what).c_str()); \
            std::abort();                                                                       \
        }                                                                                       \
    } while (false)

// --- Bytes into numbers --------------------------------------------------------------------------

// Zeros when they run out, so zero stands for what is most usual.
class Bytes {
  public:
    Bytes(const std::uint8_t* first, std::size_t size) : at_(first), end_(first + size) {}

    bool empty() const { return at_ == end_; }
    std::uint8_t one() { return empty() ? 0 : *at_++; }
    std::uint64_t several(int count) {
        std::uint64_t sum = 0;
        for (int k = 0; k < count; ++k) sum = sum << 8 | one();
        return sum;
    }
    std::size_t below(std::size_t n) { return n ? several(n > 256 ? 2 : 1) % n : 0; }
    bool rarely() { return one() >= 240; }
    template <class T>
    T pick(std::initializer_list<T> list) {
        return list.begin()[below(list.size())];
    }

    // One that is trouble somewhere, or any at all.
    double wild() {
        if (one() % 4 == 3) {
            const std::uint64_t bits = several(8);
            double number = 0.0;
            std::memcpy(&number, &bits, sizeof number);
            return number;
        }
        const double number = pick({0.0,
                                    0.5,
                                    1.0,
                                    1.5,
                                    1e-300,
                                    16383.0,
                                    16383.5,
                                    16384.0,
                                    0x1p29,
                                    0x1p29 - 1,
                                    0x1p30,
                                    0x1p30 - 1,
                                    0x1p47,
                                    0x1p48 - 1,
                                    0x1p48,
                                    0x1p50 - 0.5,
                                    0x1p50,
                                    0x1p50 + 1,
                                    0x1p62,
                                    0x1p63,
                                    1e300,
                                    HUGE_VAL,
                                    std::numeric_limits<double>::quiet_NaN()});
        return one() % 2 ? -number : number;
    }

  private:
    const std::uint8_t* at_;
    const std::uint8_t* end_;
};

// Splitmix64: many numbers for few bytes.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() {
        state_ += 0x9e3779b97f4a7c15;
        std::uint64_t z = state_;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    std::int64_t within(std::int64_t most) {
        return static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(2 * most + 1)) - most;
    }

  private:
    std::uint64_t state_;
};

// Integers from -most to most times `unit`, tied or empty or not, or what a width can just hold, or
// just not; and a few numbers of any kind.
std::vector<double> numbers(Bytes& bytes, std::size_t count, double unit, bool modest = false) {
    constexpr std::int64_t kMost[] = {
        3, 20, 300, 10000, std::int64_t{1} << 31, std::int64_t{1} << 51};
    const std::size_t kind = bytes.below(7);
    const std::int64_t most = kMost[bytes.one() % (modest && !bytes.rarely() ? 4 : 6)];
    constexpr std::int64_t kLimits[] = {0,
                                        16383,
                                        16384,
                                        (1 << 29) - 1,
                                        (1 << 30) - 1,
                                        -(1 << 30),
                                        (std::int64_t{1} << 48) - 1,
                                        -(std::int64_t{1} << 48),
                                        (std::int64_t{1} << 50) - 1};
    const std::size_t limit = kind == 6 ? bytes.below(8) : 0;
    const std::size_t rare = 1 + bytes.below(40);
    Random random(bytes.several(2));
    std::vector<double> found(count, 0.0);
    for (double& number : found) {
        std::int64_t k = 0;
        if (kind == 0) k = random.within(most);
        if (kind == 1) k = most * random.within(1);
        if (kind == 2) k = random.next() % rare ? 0 : random.within(most);
        if (kind == 3) k = static_cast<std::int8_t>(bytes.one());
        if (kind == 4) k = random.next() % rare ? random.within(2) : most * random.within(1);
        if (kind == 5) k = static_cast<std::int64_t>(rare) - 20;
        if (kind == 6) k = random.next() % rare ? 0 : kLimits[random.next() % 2 + limit];
        number = static_cast<double>(k) * unit;
    }
    if (bytes.rarely() && count > 0) {
        for (std::size_t k = bytes.below(4); k > 0; --k) found[bytes.below(count)] = bytes.wild();
    }
    return found;
}

std::vector<double> sizes(Bytes& bytes, std::size_t count, double unit) {
    std::vector<double> found = numbers(bytes, count, unit, true);
    if (bytes.rarely()) return found;
    for (double& number : found) number = std::abs(number);
    return found;
}

double draw_scale(Bytes& bytes) {
    if (bytes.rarely()) return bytes.wild();
    return bytes.pick({1.0, 64.0, 0.25, 0.3, 0x1p10, 0x1p40, 0x1p-960, 0x1p900});
}

int draw_bits(Bytes& bytes) { return bytes.rarely() ? bytes.one() : bytes.pick({16, 32, 64}); }

// --- Grids ---------------------------------------------------------------------------------------

Point draw_shape(Bytes& bytes) {
    constexpr std::size_t kMostExtent[] = {1300, 40, 14, 7};
    const std::size_t axes = 1 + bytes.below(4);
    Point shape;
    for (std::size_t a = 0; a < axes; ++a) {
        const std::size_t most = bytes.one() % 4 ? kMostExtent[axes - 1] : 5;
        shape.push_back(static_cast<Index>(1 + bytes.below(most)));
    }
    return shape;
}

// Of a cube with this reach, in the lexicographic order, those after 0.
void add_half_cube(std::vector<Point>& offsets, std::size_t axes, Index reach) {
    for_each_run({Point(axes, -reach), Point(axes, reach + 1)}, [&](Point p, Index length) {
        for (Index t = 0; t < length; ++t, ++p.back()) {
            if (p > Point(axes, 0)) offsets.push_back(p);
        }
    });
}

std::vector<Point> draw_offsets(Bytes& bytes, std::size_t axes) {
    std::vector<Point> offsets;
    const std::size_t kind = bytes.below(5);
    if (kind == 0) {  // its axes
        for (std::size_t a = 0; a < axes; ++a) {
            offsets.emplace_back(axes, 0);
            offsets.back()[a] = 1;
        }
    }
    if (kind == 1) {  // a cube
        constexpr std::size_t kMostReach[] = {30, 6, 2, 1};
        add_half_cube(offsets, axes, static_cast<Index>(1 + bytes.below(kMostReach[axes - 1])));
    }
    if (kind == 2 || kind == 3) {  // anything
        const auto reach = static_cast<Index>(1 + bytes.below(12));
        for (std::size_t k = bytes.below(24); k > 0; --k) {
            Point offset;
            for (std::size_t a = 0; a < axes; ++a) {
                offset.push_back(static_cast<std::int8_t>(bytes.one()) % (reach + 1));
            }
            offsets.push_back(offset);
        }
    }
    if (kind == 3 || kind == 4) {  // a long row
        for (std::size_t k = bytes.below(20); k > 0; --k) {
            offsets.emplace_back(axes, 0);
            offsets.back().back() = static_cast<Index>(k);
        }
    }
    const std::size_t kept = bytes.below(4);
    Random random(bytes.one());
    std::set<Point> before;
    const bool as_they_are = bytes.rarely();  // also with twins, and 0
    std::vector<Point> found;
    for (Point& offset : offsets) {
        if (kept > 0 && random.next() % 4 < kept) continue;
        Point opposite = offset;
        for (Index& step : opposite) step = -step;
        if (kind != 0 && random.next() % 2) offset.swap(opposite);
        const bool twin = offset == opposite || before.count(offset) || before.count(opposite);
        before.insert(offset);
        if (as_they_are || !twin) found.push_back(offset);
    }
    if (bytes.rarely() && !found.empty()) {
        constexpr Index kFar[] = {std::numeric_limits<Index>::min(),
                                  std::numeric_limits<Index>::max(), 1 << 30, -5000};
        found[bytes.below(found.size())][bytes.below(axes)] = kFar[bytes.below(4)];
    }
    return found;
}

bool inside(const Point& shape, const Point& offset) {
    for (std::size_t a = 0; a < shape.size(); ++a) {
        if (offset[a] <= -shape[a] || offset[a] >= shape[a]) return false;
    }
    return true;
}

// Are all pairs different, and of different sites?
bool one_of_each(const Point& shape, const std::vector<Point>& offsets) {
    std::set<Point> steps;
    std::size_t expected = 0;
    for (Point step : offsets) {
        if (!inside(shape, step)) continue;
        steps.insert(step);
        for (Index& axis : step) axis = -axis;
        steps.insert(step);
        expected += 2;
    }
    return steps.size() == expected;
}

// Halves the longest axes until all tests take little time.
void limit_size(Point& shape, const std::vector<Point>& offsets, Index most_pairs) {
    while (volume(shape) * static_cast<Index>(1 + offsets.size()) > most_pairs) {
        Index& longest = *std::max_element(shape.begin(), shape.end());
        longest = (longest + 1) / 2;
    }
}

// A conversion that overflows is not ours to test.
template <class T>
T narrowed(double value) {
    if (std::is_same_v<T, double>) return static_cast<T>(value);
    if (std::isnan(value)) return std::numeric_limits<T>::quiet_NaN();  // or 0
    const auto low = static_cast<double>(std::numeric_limits<T>::lowest());
    return static_cast<T>(
        std::clamp(value, low, static_cast<double>(std::numeric_limits<T>::max())));
}

// Values in row-major order put into an array laid out in one of several ways.
template <class T>
View<T> laid_out(Bytes& bytes, std::vector<double>& values, const Point& extents) {
    const std::size_t ways = bytes.one();
    View<T> view;
    view.strides = row_major_strides(extents);
    if (ways & 1) {  // the other order of axes
        Index stride = 1;
        for (std::size_t a = 0; a < extents.size(); ++a) {
            view.strides[a] = stride;
            stride *= extents[a];
        }
    }
    const Index spread = ways & 2 ? 2 : 1;
    for (Index& stride : view.strides) stride *= spread;
    auto memory =
        std::make_shared<std::vector<T>>(values.size() * static_cast<std::size_t>(spread));
    Index start = 0;
    if (ways & 4) {  // the last axis backwards
        start = (extents.back() - 1) * view.strides.back();
        view.strides.back() *= -1;
    }
    view.start = memory->data() + start;
    view.keep = memory;
    std::size_t k = 0;
    for_each_run(whole(extents), [&](Point p, Index length) {
        for (Index t = 0; t < length; ++t, ++p.back(), ++k) {
            const auto narrow = narrowed<T>(values[k]);
            values[k] = static_cast<double>(narrow);
            const_cast<T&>(*view.at(p)) = narrow;
        }
    });
    return view;
}

// As one of the types that a RealView may hold, or a PixelView.
RealView real_view(Bytes& bytes, std::vector<double>& values, const Point& extents) {
    if (bytes.one() % 2) return laid_out<float>(bytes, values, extents);
    return laid_out<double>(bytes, values, extents);
}
PixelView pixel_view(Bytes& bytes, std::vector<double>& values, const Point& extents) {
    const std::size_t type = bytes.below(5);
    if (type == 1) return laid_out<float>(bytes, values, extents);
    if (type == 2) return laid_out<std::uint8_t>(bytes, values, extents);
    if (type == 3) return laid_out<std::uint16_t>(bytes, values, extents);
    if (type == 4) return laid_out<std::int16_t>(bytes, values, extents);
    return laid_out<double>(bytes, values, extents);
}

bool close(double a, double b) {
    if (a == b || (std::isnan(a) && std::isnan(b))) return true;
    return std::abs(a - b) <= 1e-9 * std::abs(b) + 1e-290;
}

// Weights whose capacities at this scale are small, as a rule; each checked against its formula.
GridWeights draw_weights(Bytes& bytes, const Point& shape, const std::vector<Point>& offsets,
                         double scale) {
    const auto sites = static_cast<std::size_t>(volume(shape));
    const double unit = scale > 0.0 && std::isfinite(1.0 / scale) ? 1.0 / scale : 1.0;
    const std::vector<double> factors = sizes(bytes, offsets.size(), unit);

    std::optional<Features> features;
    std::vector<double> measured;
    const std::size_t channels = bytes.below(4);  // 0: no features
    if (channels > 0) {
        Point extents = shape;
        extents.push_back(static_cast<Index>(channels));
        measured = numbers(bytes, sites * channels, 0.25, true);
        const double beta =
            bytes.rarely() ? bytes.wild() : bytes.pick({0.1, 1.0, 0.0, 30.0, -0.01});
        features =
            Features{pixel_view(bytes, measured, extents), static_cast<Index>(channels), beta};
    }
    std::vector<RealView> fields;
    std::vector<std::vector<double>> fielded;
    if (bytes.one() % 4 == 3) {
        for (std::size_t m = 0; m < offsets.size(); ++m) {
            fielded.push_back(sizes(bytes, sites, 1.0));
            fields.push_back(real_view(bytes, fielded.back(), shape));
        }
    }
    std::vector<std::vector<double>> counts;
    if (bytes.one() % 4 == 3) {
        Random random(bytes.one());
        for (const Index extent : shape) {
            counts.emplace_back();
            for (Index k = 0; k < extent; ++k) counts.back().push_back(random.next() % 2 ? 2 : 1);
        }
        if (bytes.rarely()) counts[0][0] = bytes.wild();
    }
    const GridWeights weights(shape, offsets, factors, features, fields, counts);

    const auto count = [&](const Point& p) {
        double product = 1.0;
        for (std::size_t a = 0; a < p.size() && !counts.empty(); ++a) {
            product *= counts[a][static_cast<std::size_t>(p[a])];
        }
        return product;
    };
    std::vector<std::vector<double>> all(offsets.size(), std::vector<double>(sites));
    for (std::size_t m = 0; m < offsets.size(); ++m) weights.all(m, all[m].data());
    for_each_grid_pair(
        shape, offsets, [&](std::size_t m, const Point& p, const Point& q, Index i, Index j) {
            const auto place = static_cast<std::size_t>(i);
            double expected = factors[m];
            if (channels > 0) {
                double distance = 0.0;
                for (std::size_t c = 0; c < channels; ++c) {
                    const double difference = measured[place * channels + c] -
                                              measured[static_cast<std::size_t>(j) * channels + c];
                    distance += difference * difference;
                }
                const double exponent = -features->beta * distance;
                if (std::abs(exponent) > 700.0)
                    return;  // where the core's exp gives 0 a little early
                expected *= std::exp(exponent);
            }
            if (!fielded.empty()) expected *= fielded[m][place];
            if (!counts.empty()) expected /= count(p) * count(q);
            REQUIRE(close(all[m][place], expected), "a weight is not what its formula says");
        });
    return weights;
}

PlainEnergy plain_energy(const GridWeights& weights, double scale, int bits) {
    const Point& shape = weights.shape();
    PlainEnergy plain;
    plain.sites = static_cast<std::size_t>(volume(shape));
    plain.scale = scale;
    plain.fits = is_scale(scale) && one_of_each(shape, weights.offsets());
    if (!plain.fits) return plain;
    std::vector<std::vector<double>> all(weights.size(), std::vector<double>(plain.sites));
    for (std::size_t m = 0; m < weights.size(); ++m) weights.all(m, all[m].data());
    with_width(bits, [&](auto width) {
        for_each_grid_pair(shape, weights.offsets(),
                           [&](std::size_t m, const Point&, const Point&, Index i, Index j) {
                               const auto p = static_cast<std::size_t>(i);
                               plain.add(p, static_cast<std::size_t>(j), all[m][p],
                                         Width<decltype(width)>::kMostCapacity);
                           });
        plain.require_sums(Width<decltype(width)>::kMostSum);
    });
    return plain;
}

// --- Calls ---------------------------------------------------------------------------------------

enum class State { kNew, kSolved, kInterrupted, kBroken };
enum class Outcome { kDone, kRefused, kInterrupted, kNotReady };

// Says stop at the k-th question.
Poll draw_poll(Bytes& bytes) {
    if (bytes.one() % 4 != 3) return Poll();
    return [left = bytes.below(512)]() mutable { return left-- == 0; };
}

class Session {
  public:
    Session(Bytes& bytes, Flow& flow, PlainEnergy plain)
        : bytes_(bytes), flow_(flow), plain_(std::move(plain)), held_(flow.bytes()) {}
    virtual ~Session() = default;

    void run() {
        for (int turn = 0; turn < 16 && !bytes_.empty(); ++turn) {
            call(bytes_.below(12));
            REQUIRE(flow_.bytes() == held_, "the bytes held have changed");
        }
        if (state_ != State::kBroken) {
            if (state_ != State::kSolved) minimize(Poll());
            check_all();
        }
    }

  protected:
    virtual void call(std::size_t which) {
        if (which < 3) return draw_unary();
        if (which < 7) return change();
        if (which == 7) return labels(false, draw_poll(bytes_));
        if (which == 8) return labels(true, draw_poll(bytes_));
        if (which == 9) return refuse_nan();
        check();
    }

    void check_all() {
        check();
        value();
        labels(true, Poll());
        labels(false, Poll());
        check();
    }

    template <class Work>
    Outcome outcome(Work&& work) {
        try {
            work();
            return Outcome::kDone;
        } catch (const Interrupted&) {
            return Outcome::kInterrupted;
        } catch (const std::invalid_argument& error) {
            said_ = error.what();
            return Outcome::kRefused;
        } catch (const std::runtime_error& error) {
            said_ = error.what();
            return Outcome::kNotReady;
        }
    }
    void expect(Outcome found, Outcome expected) const {
        REQUIRE(found == expected, "unexpected outcome " + std::to_string(int(found)) + " after " +
                                       std::to_string(int(state_)) + ": " + said_);
    }
    // Work that needs a solved flow and may be interrupted. True if it was done.
    template <class Work>
    bool done(const Poll& poll, Work&& work) {
        const Outcome found = outcome(work);
        if (state_ != State::kSolved) {
            expect(found, Outcome::kNotReady);
            return false;
        }
        if (poll && found == Outcome::kInterrupted) {
            state_ = State::kInterrupted;
            return false;
        }
        expect(found, Outcome::kDone);
        return true;
    }

    double unit() const { return std::isfinite(1.0 / plain_.scale) ? 1.0 / plain_.scale : 1.0; }

    void begin_anew(PlainEnergy plain) {
        plain_ = std::move(plain);
        state_ = State::kNew;
        unary_.assign(plain_.sites, 0.0);
        reference_ = nullptr;
    }

    Bytes& bytes_;
    Flow& flow_;
    PlainEnergy plain_;
    State state_ = State::kNew;
    std::vector<double> unary_ = std::vector<double>(plain_.sites, 0.0);
    std::string said_;

  private:
    void draw_unary() {
        std::vector<double> other = numbers(bytes_, plain_.sites, unit());
        const std::size_t rare = bytes_.one() % 2 ? 1 : 2 + bytes_.below(20);
        Random random(bytes_.one());
        for (std::size_t i = 0; i < plain_.sites; ++i) {
            if (std::isnan(other[i])) other[i] = -0.0;
            if (random.next() % rare == 0) unary_[i] = other[i];
        }
        for (int again = bytes_.one() % 4; again > 0; --again) minimize(draw_poll(bytes_));
        minimize(Poll());
        look();
    }

    void minimize(const Poll& poll) {
        const Outcome found = outcome([&] { flow_.minimize(unary_.data(), poll); });
        if (state_ == State::kBroken) return expect(found, Outcome::kNotReady);
        if (poll && found == Outcome::kInterrupted) {
            state_ = State::kInterrupted;
            return;
        }
        expect(found, Outcome::kDone);
        state_ = State::kSolved;
        value();
    }

    void change() {
        const std::size_t count = bytes_.below(plain_.sites < 16 ? 6 : 20);
        const std::vector<double> values = numbers(bytes_, count, unit());
        std::vector<std::int64_t> sites;
        const bool bad_site = bytes_.rarely();
        for (std::size_t k = 0; k < count; ++k) {
            sites.push_back(static_cast<std::int64_t>(bytes_.below(plain_.sites + bad_site)));
        }
        if (bad_site && count > 0 && bytes_.one() % 2) {
            sites[0] = static_cast<std::int64_t>(bytes_.several(8));
        }
        bool refused = false;
        for (std::size_t k = 0; k < count; ++k) {
            const auto i = static_cast<std::size_t>(sites[k]);
            refused = refused || i >= plain_.sites || std::isnan(values[k]) ||
                      std::abs(values[k] * plain_.scale) >= static_cast<double>(kMostUnary) ||
                      std::abs(plain_.units(unary_[i])) == kMostUnary;
        }
        const Poll poll = draw_poll(bytes_);
        const auto work = [&] { flow_.change(sites.data(), values.data(), count, poll); };
        if (state_ == State::kSolved && refused) {
            expect(outcome(work), Outcome::kRefused);
            return look();  // as before
        }
        const bool begun = state_ == State::kSolved;
        done(poll, work);
        if (!begun) return;
        for (std::size_t k = 0; k < count; ++k) {
            unary_[static_cast<std::size_t>(sites[k])] = values[k];
        }
        look();
    }

    // Not always all of it: looking closer grows the forests that the next call starts with.
    void look() {
        value();
        const std::size_t what = bytes_.one();
        if (what & 1) check();
        if (what & 2) labels(what & 8, Poll());
        if (what & 4) labels(what & 16, Poll());
        if (what & 32) check();
    }

    void refuse_nan() {
        if (plain_.sites == 0) return;
        std::vector<double> bad = unary_;
        bad[bytes_.below(plain_.sites)] = std::numeric_limits<double>::quiet_NaN();
        expect(outcome([&] { flow_.minimize(bad.data(), Poll()); }), Outcome::kRefused);
    }

    void check() {
        done(Poll(), [&] { flow_.check(); });
    }

    // A cold flow on the list of pairs, with the widest capacities. In units, so that the scale is
    // not the same either.
    GraphFlow& reference() {
        std::vector<double> unary;
        for (const double u : unary_) unary.push_back(static_cast<double>(plain_.units(u)));
        if (reference_ && unary == reference_unary_) return *reference_;
        std::vector<Vertex> ends;
        std::vector<double> weights;
        for (const Pair& pair : plain_.pairs) {
            ends.push_back(static_cast<Vertex>(pair.first));
            ends.push_back(static_cast<Vertex>(pair.second));
            weights.push_back(static_cast<double>(pair.capacity));
        }
        reference_ = graph_flow(static_cast<std::int64_t>(plain_.sites), ends.data(),
                                weights.data(), weights.size(), 1.0, 64);
        reference_->minimize(unary.data(), Poll());
        reference_unary_ = std::move(unary);
        return *reference_;
    }

    void value() {
        ExactSum found;
        if (!done(Poll(), [&] { found = flow_.minimum(); })) return;
        ExactSum expected = reference().minimum();
        plain_.add_beyond(unary_, expected);
        REQUIRE(found.digits() == expected.digits(),
                "the value is " + std::to_string(found.nearest()) + ", cold " +
                    std::to_string(expected.nearest()));
    }

    void labels(bool largest, const Poll& poll) {
        const std::size_t sites = plain_.sites;
        const auto found = std::make_unique<bool[]>(sites);
        if (!done(poll, [&] { flow_.labels(largest, found.get(), poll); })) return;
        const auto expected = std::make_unique<bool[]>(sites);
        GraphFlow& cold = reference();
        cold.labels(largest, expected.get(), Poll());
        REQUIRE(std::equal(found.get(), found.get() + sites, expected.get()), "other labels cold");
        ExactSum energy;
        energy.add(plain_.energy_in_units(unary_, found));
        REQUIRE(energy.digits() == cold.minimum().digits(),
                "the energy of the labels is not the value");
        if (sites > 8) return;
        const Minimizers every = brute_force(plain_, unary_);
        REQUIRE(std::equal(found.get(), found.get() + sites,
                           (largest ? every.largest : every.smallest).begin()),
                "other labels by brute force");
    }

    const std::size_t held_;
    std::unique_ptr<GraphFlow> reference_;
    std::vector<double> reference_unary_;
};

class GridSession final : public Session {
  public:
    GridSession(Bytes& bytes, GridFlow& flow, const GridWeights& weights, PlainEnergy plain,
                int bits)
        : Session(bytes, flow, std::move(plain)),
          grid_(flow),
          shape_(weights.shape()),
          offsets_(weights.offsets()),
          bits_(bits) {}

  private:
    void call(std::size_t which) override {
        if (which == 10) return refill();
        Session::call(which);
    }

    void refill() {
        const double scale = draw_scale(bytes_);
        Point shape = shape_;
        if (bytes_.rarely()) shape[bytes_.below(shape.size())] += 1;
        const GridWeights weights = draw_weights(bytes_, shape, offsets_, scale);
        const Poll poll = draw_poll(bytes_);
        const Outcome found = outcome([&] { grid_.refill(weights, scale, poll); });
        if (shape != shape_) return expect(found, Outcome::kRefused);
        PlainEnergy plain = plain_energy(weights, scale, bits_);
        if (poll && found == Outcome::kInterrupted) {
            state_ = State::kBroken;
        } else if (!plain.fits) {
            expect(found, Outcome::kRefused);
            state_ = State::kBroken;
        } else {
            expect(found, Outcome::kDone);
            begin_anew(std::move(plain));
        }
    }

    GridFlow& grid_;
    Point shape_;
    std::vector<Point> offsets_;
    int bits_;
};

template <class Make>
auto made(Make&& make, bool fits) -> decltype(make()) {
    try {
        auto flow = make();
        REQUIRE(fits, "what does not fit was taken");
        return flow;
    } catch (const std::invalid_argument& error) {
        REQUIRE(!fits, std::string("refused: ") + error.what());
        return nullptr;
    } catch (const Interrupted&) {
        return nullptr;
    }
}

void fuzz_grid(Bytes& bytes) {
    Point shape = draw_shape(bytes);
    const std::vector<Point> offsets = draw_offsets(bytes, shape.size());
    limit_size(shape, offsets, bytes.one() % 8 == 7 ? 3000 : 400);
    const double scale = draw_scale(bytes);
    const int bits = draw_bits(bytes);
    const GridWeights weights = draw_weights(bytes, shape, offsets, scale);
    const bool width = bits == 16 || bits == 32 || bits == 64;
    PlainEnergy plain;
    plain.fits = false;
    if (width) plain = plain_energy(weights, scale, bits);
    const Poll poll = draw_poll(bytes);
    auto flow = made([&] { return grid_flow(weights, scale, bits, poll); }, plain.fits);
    if (!flow && plain.fits) flow = grid_flow(weights, scale, bits, Poll());
    if (!flow) return;
    REQUIRE(flow->shape() == shape, "another shape");
    REQUIRE(flow->bytes() == grid_flow_bytes(shape, offsets, bits), "more bytes than needed");
    GridSession(bytes, *flow, weights, std::move(plain), bits).run();
}

void fuzz_graph(Bytes& bytes) {
    const std::size_t sites = bytes.below(bytes.one() % 2 ? 10 : 120);
    const double scale = draw_scale(bytes);
    const int bits = draw_bits(bytes);
    const std::size_t pairs = bytes.below(bytes.one() % 2 ? 20 : 600);
    const double unit = scale > 0.0 && std::isfinite(1.0 / scale) ? 1.0 / scale : 1.0;
    const std::vector<double> weights = sizes(bytes, pairs, unit);
    Random random(bytes.several(2));
    const bool bad_ends = bytes.rarely();
    const std::size_t near = 1 + bytes.below(16);  // a low number makes long chains
    std::vector<Vertex> ends;
    PlainEnergy plain;
    plain.sites = sites;
    plain.scale = scale;
    plain.fits = is_scale(scale) && (bits == 16 || bits == 32 || bits == 64);
    for (std::size_t e = 0; e < pairs; ++e) {
        auto i = static_cast<Vertex>(random.next() % (sites + 1));
        Vertex j = near < 16 ? i + random.within(static_cast<std::int64_t>(near))
                             : static_cast<Vertex>(random.next() % (sites + 1));
        if (!bad_ends && sites < 2) break;
        if (!bad_ends) {
            const auto n = static_cast<Vertex>(sites);
            i = std::clamp<Vertex>(i, 0, n - 1);
            j = std::clamp<Vertex>(j, 0, n - 1);
            if (i == j) j = i > 0 ? i - 1 : i + 1;
        }
        ends.push_back(i);
        ends.push_back(j);
    }
    for (std::size_t e = 0; 2 * e < ends.size() && plain.fits; ++e) {
        const auto i = static_cast<std::size_t>(ends[2 * e]);
        const auto j = static_cast<std::size_t>(ends[2 * e + 1]);
        plain.fits = i < sites && j < sites && i != j;
        if (!plain.fits) break;
        with_width(bits, [&](auto width) {
            plain.add(i, j, weights[e], Width<decltype(width)>::kMostCapacity);
        });
    }
    if (plain.fits) {
        with_width(bits, [&](auto width) { plain.require_sums(Width<decltype(width)>::kMostSum); });
    }
    const auto flow = made(
        [&] {
            return graph_flow(static_cast<std::int64_t>(sites), ends.data(), weights.data(),
                              ends.size() / 2, scale, bits);
        },
        plain.fits);
    if (!flow) return;
    REQUIRE(flow->sites() == static_cast<std::int64_t>(sites), "another number of sites");
    REQUIRE(flow->bytes() ==
                graph_flow_bytes(flow->sites(), static_cast<std::int64_t>(ends.size() / 2), bits),
            "more bytes than needed");
    Session(bytes, *flow, std::move(plain)).run();
}

// Nothing is allocated, whatever the size.
void fuzz_bytes_needed(Bytes& bytes) {
    const std::size_t axes = 1 + bytes.below(5);
    Point shape;
    for (std::size_t a = 0; a < axes; ++a) {
        shape.push_back(1 + static_cast<Index>(bytes.several(bytes.one() % 8) >> 1));
    }
    const std::vector<Point> offsets = draw_offsets(bytes, axes > 4 ? 4 : axes);
    if (axes > 4) return;
    try {
        REQUIRE(grid_flow_bytes(shape, offsets, draw_bits(bytes)) > 0, "no bytes");
    } catch (const std::invalid_argument&) {
    }
}

}  // namespace

// Faster, and enough to find what is wrong.
extern "C" const char* __asan_default_options() {
    return "malloc_context_size=6:quarantine_size_mb=16";
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    Bytes bytes(data, size);
    const std::uint8_t what = bytes.one();
    if (what >= 250) {
        fuzz_bytes_needed(bytes);
    } else if (what >= 200) {
        fuzz_graph(bytes);
    } else {
        fuzz_grid(bytes);
    }
    return 0;
}
