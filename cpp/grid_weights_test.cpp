// Weights, coupling and contrast on small boxes: mostly for the sanitizers; laws are tested from
// Python.
#include "grid_weights.h"

#include <cmath>
#include <limits>
#include <memory>
#include <random>

#include "capacities.h"
#include "capacity_table.h"
#include "check.h"
#include "contrast.h"
#include "grid_coupling.h"
#include "label_sums.h"
#include "roughness.h"

using namespace dope;

namespace {

View<double> view(const std::vector<double>& values, const Point& shape) {
    return {values.data(), row_major_strides(shape), nullptr};
}

void test_weights_and_coupling(std::mt19937& random, const Point& shape,
                               const std::vector<Point>& offsets) {
    std::normal_distribution<double> normal;
    Point with_channels = shape;
    with_channels.push_back(2);
    std::vector<double> features(static_cast<std::size_t>(volume(with_channels)));
    for (double& x : features) x = normal(random);
    std::vector<double> field(static_cast<std::size_t>(volume(shape)), 2.0);
    std::vector<std::vector<double>> counts;
    for (const Index n : shape) counts.emplace_back(static_cast<std::size_t>(n), 1.0);
    counts[0][0] = 2.0;

    const Features given{view(features, with_channels), 2, 0.5};
    const std::vector<RealView> fields(offsets.size(), view(field, shape));
    const std::vector<double> factors(offsets.size(), 3.0);
    const GridWeights weights(shape, offsets, factors, given, fields, counts);
    std::vector<double> all(field.size());
    for (std::size_t m = 0; m < weights.size(); ++m) {
        weights.all(m, all.data());
        for (const double w : all) CHECK(w >= 0.0 && w <= 6.0);
    }

    Contrast parts;
    for (Index cut = 0; cut < shape[0]; ++cut) {
        Box slab = whole(shape);
        slab.low[0] = cut;
        slab.high[0] = cut + 1;
        const Contrast part = contrast(given, shape, offsets, slab, 1e-9);
        parts.pairs += part.pairs;
        parts.sum.add(part.sum);
    }
    const Contrast total = contrast(given, shape, offsets, whole(shape), 1e-9);
    CHECK(total.pairs == parts.pairs);
    CHECK(total.sum.digits() == parts.sum.digits());

    // Labels pay the weights of the pairs they part.
    std::vector<std::uint8_t> bytes(field.size());
    for (std::uint8_t& label : bytes) label = normal(random) > 0.0;
    // Numbers pay the square of their difference times the weight; most are alike.
    std::vector<double> numbers(bytes.begin(), bytes.end());
    for (std::size_t k = 0; k < numbers.size(); k += 7) numbers[k] = normal(random);
    double apart = 0.0;
    double rough = 0.0;
    for (std::size_t m = 0; m < weights.size(); ++m) {
        weights.all(m, all.data());
        const Index away = dot(offsets[m], row_major_strides(shape));
        for_each_run(weights.tails(m), [&](const Point& first, Index length) {
            const Index start = dot(first, row_major_strides(shape));
            for (Index p = start; p < start + length; ++p) {
                if (bytes[p] != bytes[p + away]) apart += all[p];
                const double change = numbers[p] - numbers[p + away];
                rough += all[p] * change * change;
            }
        });
    }
    CHECK(std::abs(roughness(weights, bytes.data(), whole(shape)).nearest() - apart) <=
          1e-9 * apart);
    CHECK(std::abs(roughness(weights, numbers.data(), whole(shape)) - rough) <= 1e-9 * rough);

    // <A y, z> = <y, A' z>
    Box block = whole(shape);
    block.high[0] = std::max<Index>(1, shape[0] / 2);
    const GridCoupling coupling(weights, block, counts);
    const auto inside = static_cast<std::size_t>(volume(coupling.block_shape()));
    const auto labels = std::make_unique<bool[]>(inside);
    for (std::size_t i = 0; i < inside; ++i) labels[i] = normal(random) > 0.0;
    std::vector<double> forth(inside);
    std::vector<double> back(field.size());
    coupling.apply(features.data(), forth.data());  // any numbers do
    coupling.transpose(labels.get(), back.data());
    double left = 0.0;
    double right = 0.0;
    for (std::size_t i = 0; i < inside; ++i) left += labels[i] ? forth[i] : 0.0;
    for (std::size_t i = 0; i < back.size(); ++i) right += back[i] * features[i];
    CHECK(std::abs(left - right) < 1e-9);

    const auto coupled = std::make_unique<bool[]>(inside);
    coupling.coupled(coupled.get());
    coupling.strength(forth.data());
    for (std::size_t i = 0; i < inside; ++i) CHECK(coupled[i] || forth[i] == 0.0);
}

// Integers are added up as such, whatever the unit: the general way sees the same numbers in
// double.
template <class Pixel>
void test_contrast_of_integers(std::mt19937& random, const Point& shape, Index channels) {
    Point with_channels = shape;
    with_channels.push_back(channels);
    std::vector<Pixel> pixels(static_cast<std::size_t>(volume(with_channels)));
    std::uniform_int_distribution<int> any(std::numeric_limits<Pixel>::min(),
                                           std::numeric_limits<Pixel>::max());
    for (Pixel& pixel : pixels) pixel = static_cast<Pixel>(any(random));
    const std::vector<double> numbers(pixels.begin(), pixels.end());
    const Point strides = row_major_strides(with_channels);
    const Features integers{View<Pixel>{pixels.data(), strides, nullptr}, channels, 0.0};
    const Features doubles{View<double>{numbers.data(), strides, nullptr}, channels, 0.0};
    const std::vector<Point> offsets{Point(shape.size(), 1)};
    for (const double unit : {0x1p-25, 0x1p-6, 1.0, 4.0, 0.3}) {
        const Contrast a = contrast(integers, shape, offsets, whole(shape), unit);
        const Contrast b = contrast(doubles, shape, offsets, whole(shape), unit);
        CHECK(a.sum.digits() == b.sum.digits() && a.pairs == b.pairs);
    }
}

// A table has the bits of what is computed, both ways, and 0 where there is no neighbor.
template <class Pixel>
void test_capacity_table(std::mt19937& random, const Point& shape,
                         const std::vector<Point>& offsets, Index channels, double beta) {
    Point with_channels = shape;
    with_channels.push_back(channels);
    std::vector<Pixel> pixels(static_cast<std::size_t>(volume(with_channels)));
    std::geometric_distribution<int> mostly_small(0.1);
    for (Pixel& pixel : pixels) pixel = static_cast<Pixel>(mostly_small(random));
    pixels.front() = std::numeric_limits<Pixel>::min();
    pixels.back() = std::numeric_limits<Pixel>::max();
    const Features features{View<Pixel>{pixels.data(), row_major_strides(with_channels), nullptr},
                            channels, beta};
    std::vector<double> factors;
    for (std::size_t m = 0; m < offsets.size(); ++m) factors.push_back(m % 3 == 0 ? 1.0 : 0.7);
    const GridWeights weights(shape, offsets, factors, features, {}, {});
    const GridLayout layout(shape, offsets);
    constexpr double kScale = 1000.0;
    constexpr std::int64_t kMost = 16383;
    CHECK(!CapacityTable::of(weights, layout, kScale, 999, 1 << 20));  // 1000 are refused elsewhere
    CHECK(!CapacityTable::of(weights, layout, kScale, kMost, 1));      // larger than it is worth
    std::vector<double> with_nan = factors;
    with_nan.back() = std::numeric_limits<double>::quiet_NaN();
    const GridWeights bad(shape, offsets, with_nan, features, {}, {});
    const bool used = GridLayout(shape, {offsets.back()}).used.size() > 0;
    CHECK(!used || !CapacityTable::of(bad, layout, kScale, kMost, 1 << 20));
    auto table = CapacityTable::of(weights, layout, kScale, kMost, 1 << 20);
    CHECK(table.has_value());

    const std::size_t arcs = layout.steps.size();
    const auto sites = static_cast<std::size_t>(layout.sites);
    std::vector<CapacityTable::Number> expected(sites * arcs, 0);
    std::vector<double> all(static_cast<std::size_t>(volume(shape)));
    for (const auto& use : layout.used) {
        weights.all(use.offset, all.data());
        for_each_run(weights.tails(use.offset), [&](Point p, Index length) {
            for (Index t = 0; t < length; ++t, ++p.back()) {
                const double weight = all[dot(p, row_major_strides(shape))];
                const auto capacity = static_cast<CapacityTable::Number>(nearest(weight * kScale));
                const auto v = static_cast<std::size_t>(layout.place(p));
                const auto u = v + static_cast<std::size_t>(layout.steps[use.arc]);
                expected[v * arcs + static_cast<std::size_t>(use.arc)] = capacity;
                expected[u * arcs + static_cast<std::size_t>(layout.opposite(use.arc))] = capacity;
            }
        });
    }
    std::vector<CapacityTable::Number> found(CapacityTable::kRun * arcs, 0);
    for (Index low = 0; low < shape[0]; low += 2) {
        Box planes = whole(shape);
        planes.low[0] = low;
        planes.high[0] = std::min(shape[0], low + 2);
        table->open(planes.low[0], planes.high[0]);
        for_each_run(
            planes,
            [&](const Point& first, Index length) {
                table->look_up(layout.place(first), length, found.data());
                const std::size_t start = static_cast<std::size_t>(layout.place(first)) * arcs;
                for (std::size_t k = 0; k < static_cast<std::size_t>(length) * arcs; ++k) {
                    CHECK(found[k] == expected[start + k]);
                }
            },
            CapacityTable::kRun);
    }
}

// Weights of a move: the same however they are asked for, and as a plain loop over pairs has them;
// what they leave to each site, and what labels pay, likewise. `apart` sites lie between those of
// an image.
template <class Label>
void test_fused(std::mt19937& random, const Point& shape, const std::vector<Point>& offsets,
                std::int32_t labels, Index apart, bool by_table) {
    std::normal_distribution<double> normal;
    const auto sites = static_cast<std::size_t>(volume(shape));
    LabelCosts costs{std::vector<double>(static_cast<std::size_t>(labels * labels)), labels};
    const auto cost = [&](Label a, Label b) -> double& {
        return costs.costs[static_cast<std::size_t>(a * labels + b)];
    };
    for (Label a = 0; a < labels; ++a) {
        for (Label b = 0; b < a; ++b) cost(a, b) = cost(b, a) = normal(random);
    }
    std::uniform_int_distribution<int> any(0, labels - 1);
    const auto image = [&] {
        std::vector<Label> found(sites);
        for (Label& label : found) label = static_cast<Label>(any(random));
        return found;
    };
    const std::vector<Label> x = image();
    const std::vector<Label> p = image();
    const Point strides = row_major_strides(shape);
    const auto spread = [&](const std::vector<Label>& packed) {
        std::vector<Label> found(sites * static_cast<std::size_t>(apart));
        for (std::size_t i = 0; i < sites; ++i) found[i * apart] = packed[i];
        return found;
    };
    const std::vector<Label> wide_x = spread(x);
    const std::vector<Label> wide_p = spread(p);
    Point wide = strides;
    for (Index& stride : wide) stride *= apart;
    std::optional<LabelView> proposal;
    if (!by_table) proposal = View<Label>{wide_p.data(), wide, nullptr};
    const Fused fused(View<Label>{wide_x.data(), wide, nullptr}, proposal, costs);
    std::vector<double> field(sites);
    for (double& w : field) w = normal(random);
    std::vector<std::uint8_t> mask(sites);
    for (std::uint8_t& here : mask) here = any(random) > 0;
    const std::vector<RealView> fields(offsets.size(), view(field, shape));
    const std::vector<double> factors(offsets.size(), 3.0);
    const MaskView inside{mask.data(), strides, nullptr};
    std::vector<int> signs;
    for (std::size_t m = 0; m < offsets.size(); ++m) signs.push_back(static_cast<int>(m % 3) - 1);
    const GridWeights plain(shape, offsets, factors, {}, fields, {}, inside);
    const GridWeights weights(shape, offsets, factors, {}, fields, {}, inside, fused, signs);

    std::vector<double> all(sites);
    std::vector<double> row(kRun);
    std::vector<double> slopes(sites, 0.0);
    double paid = 0.0;
    for (std::size_t m = 0; m < weights.size(); ++m) {
        std::vector<double> expected(sites, 0.0);
        const Index away = dot(offsets[m], strides);
        for_each_run(weights.tails(m), [&](const Point& first, Index length) {
            const Index start = dot(first, strides);
            plain.row(m, first, length, row.data());
            for (Index t = 0; t < length; ++t) {
                const auto i = static_cast<std::size_t>(start + t);
                const auto j = i + static_cast<std::size_t>(away);
                const double w = row[static_cast<std::size_t>(t)];
                const double keep_take = cost(x[i], p[j]);
                const double take_keep = cost(p[i], x[j]);
                const double keep_keep = cost(x[i], x[j]);
                const double take_take = cost(p[i], p[j]);
                const double curl = keep_take + take_keep - (keep_keep + take_take);
                const double factor = by_table                 ? keep_keep
                                      : std::abs(curl) < 1e-14 ? 0.0
                                                               : curl / 2;
                const double fusion = w * factor;
                expected[i] = signs[m] == 0 ? fusion : std::max(signs[m] * fusion, 0.0);
                paid += w * keep_keep;
                slopes[i] += w * (take_keep + take_take - keep_keep - keep_take) / 2;
                slopes[j] += w * (keep_take + take_take - keep_keep - take_keep) / 2;
            }
        });
        weights.all(m, all.data());
        for (std::size_t i = 0; i < sites; ++i) CHECK(all[i] == expected[i]);
        ScatteredWeights scattered(weights);
        for_each_run(weights.tails(m), [&](const Point& first, Index length) {
            std::vector<Index> places;
            for (Index t = 0; t < length; t += 1 + any(random)) places.push_back(t);
            scattered.put(m, first, places.data(), static_cast<Index>(places.size()));
            const std::span<const double> found = scattered.take(m);
            const Index start = dot(first, strides);
            for (std::size_t k = 0; k < places.size(); ++k) {
                CHECK(found[k] == expected[static_cast<std::size_t>(start + places[k])]);
            }
        });
    }
    const double found = label_cost(plain, x.data(), costs, whole(shape)).nearest();
    CHECK(std::abs(found - paid) <= 1e-9 * (1.0 + std::abs(paid)));
    label_slopes(plain, x.data(), p.data(), costs, all.data());
    for (std::size_t i = 0; i < sites; ++i) {
        CHECK(std::abs(all[i] - slopes[i]) <= 1e-9 * (1.0 + std::abs(slopes[i])));
    }
    std::vector<std::uint8_t> joint(costs.costs.size(), 0);
    joint_labels(x.data(), p.data(), mask.data(), static_cast<Index>(sites), labels, joint.data());
    for (std::size_t i = 0; i < sites; ++i) {
        const std::uint8_t one = joint[static_cast<std::size_t>(x[i] * labels + p[i])];
        CHECK(one == 1 || mask[i] == 0);
    }
}

}  // namespace

int main() {
    std::mt19937 random(1);
    test_weights_and_coupling(random, {1}, {{1}});
    test_weights_and_coupling(random, {3000}, {{1}, {-2}, {7}});
    test_weights_and_coupling(random, {9, 8}, {{0, 1}, {1, 0}, {-1, 1}, {2, -3}, {20, 0}});
    test_weights_and_coupling(random, {4, 5, 6}, {{0, 0, 1}, {0, 1, 0}, {1, 0, 0}, {-1, 1, -1}});
    for (const Index channels : {1, 2, 3}) {
        test_contrast_of_integers<std::uint8_t>(random, {7, 2500}, channels);
        test_contrast_of_integers<std::uint16_t>(random, {7, 2500}, channels);
        test_contrast_of_integers<std::int16_t>(random, {3, 4, 5}, channels);
    }
    for (const Index channels : {1, 3, 4}) {
        test_capacity_table<std::uint8_t>(random, {300}, {{1}, {-2}, {7}}, channels, 0.01);
        test_capacity_table<std::uint8_t>(random, {9, 80}, {{0, 1}, {1, -5}, {-2, 3}, {20, 0}},
                                          channels, 0.01);
        test_capacity_table<std::uint16_t>(random, {5, 70}, {{0, 1}, {1, 0}}, channels, 0.02);
        test_capacity_table<std::int16_t>(random, {4, 5, 6}, {{0, 0, 1}, {0, 1, 0}, {-1, 1, -1}},
                                          channels, 0.02);
    }
    test_capacity_table<std::uint8_t>(random, {9, 8}, {{0, 1}, {1, 0}}, 1, 0.0);
    for (const bool by_table : {false, true}) {
        for (const Index apart : {1, 2}) {
            test_fused<std::uint8_t>(random, {1}, {{1}}, 2, apart, by_table);
            test_fused<std::uint8_t>(random, {2300}, {{1}, {-2}, {7}}, 5, apart, by_table);
            test_fused<std::uint8_t>(random, {9, 80}, {{0, 1}, {1, -5}, {-2, 3}, {20, 0}}, 200,
                                     apart, by_table);
            test_fused<std::uint16_t>(random, {4, 5, 6}, {{0, 0, 1}, {0, 1, 0}, {-1, 1, -1}}, 300,
                                      apart, by_table);
        }
    }
    return 0;
}
