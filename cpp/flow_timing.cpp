// How long the core takes, by kernel: to compute a weight, to build a network, to solve it, and to
// solve it again after a strip of sites has changed. `make timing` runs it.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "flow.h"

using namespace dope;

namespace {

double seconds() {
    using Clock = std::chrono::steady_clock;
    return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

// The half of a ball of offsets that comes after 0 in row-major order.
std::vector<Point> half_ball(std::size_t dimension, Index radius, Index squared_radius) {
    std::vector<Point> offsets;
    const Box box{Point(dimension, -radius), Point(dimension, radius + 1)};
    for_each_run(box, [&](Point p, Index length) {
        for (Index t = 0; t < length; ++t, ++p.back()) {
            if (p > Point(dimension, 0) && dot(p, p) <= squared_radius) offsets.push_back(p);
        }
    });
    return offsets;
}

// Balls of foreground under noise, as pixels and as a unary that tells them apart.
struct Picture {
    Point shape;
    std::vector<std::uint8_t> pixels;
    std::vector<double> unary;

    Picture(const Point& extents, double noise) : shape(extents) {
        constexpr Index kPeriod = 40;
        std::mt19937 random(1);
        for_each_run(whole(shape), [&](Point p, Index length) {
            for (Index t = 0; t < length; ++t, ++p.back()) {
                Index squared = 0;
                for (const Index x : p) {
                    squared += (x % kPeriod - kPeriod / 2) * (x % kPeriod - kPeriod / 2);
                }
                double sum = squared < kPeriod * kPeriod / 8 ? 0.5 : -0.5;
                for (int k = 0; k < 12; ++k) {
                    sum += noise * (static_cast<double>(random()) * 0x1p-32 - 0.5);
                }
                unary.push_back(-100.0 * sum);
                pixels.push_back(static_cast<std::uint8_t>(std::clamp(128 + 40 * sum, 0.0, 255.0)));
            }
        });
    }
};

void time_kernel(const char* name, const Picture& picture, const std::vector<Point>& offsets) {
    View<std::uint8_t> view;
    view.start = picture.pixels.data();
    view.strides = row_major_strides(picture.shape);
    view.strides.push_back(1);
    const GridWeights weights(picture.shape, offsets, std::vector<double>(offsets.size(), 100.0),
                              Features{view, 1, 1e-3}, {}, {});
    std::vector<double> row(static_cast<std::size_t>(volume(picture.shape)));
    double begin = seconds();
    for (std::size_t m = 0; m < offsets.size(); ++m) weights.all(m, row.data());
    const double weigh = seconds() - begin;

    begin = seconds();
    const auto flow = grid_flow(weights, 1.0, 16, Poll());
    const double build = seconds() - begin;
    begin = seconds();
    flow->minimize(picture.unary.data(), Poll());
    const double cold = seconds() - begin;

    std::vector<double> unary = picture.unary;
    std::for_each_n(unary.begin(), unary.size() / 20, [](double& u) { u = 0.8 * u - 10.0; });
    begin = seconds();
    flow->minimize(unary.data(), Poll());
    const double warm = seconds() - begin;

    const auto sites = static_cast<double>(unary.size());
    const double pairs = sites * static_cast<double>(offsets.size());
    std::printf("%-22s %8.2f %10.1f %10.1f %10.1f %8.0f\n", name, 1e9 * weigh / pairs,
                1e9 * build / sites, 1e9 * cold / sites, 1e9 * warm / sites,
                static_cast<double>(flow->bytes()) / sites);
}

}  // namespace

int main() {
    std::printf("%-22s %8s %10s %10s %10s %8s\n", "kernel", "ns/pair", "build", "cold", "warm",
                "bytes");
    std::printf("%-22s %8s %10s %10s %10s %8s\n", "", "weights", "ns/site", "ns/site", "ns/site",
                "per site");
    const Picture flat({1000, 1000}, 1.0);
    time_kernel("2D, 4 neighbors", flat, half_ball(2, 1, 1));
    time_kernel("2D, 8 neighbors", flat, half_ball(2, 1, 2));
    time_kernel("2D, 7x7", flat, half_ball(2, 3, 18));
    time_kernel("2D, 9x9", flat, half_ball(2, 4, 32));
    const Picture solid({100, 100, 100}, 1.0);
    time_kernel("3D, 6 neighbors", solid, half_ball(3, 1, 1));
    time_kernel("3D, 26 neighbors", solid, half_ball(3, 1, 3));
    time_kernel("3D, ball of radius 2", solid, half_ball(3, 2, 4));
    time_kernel("3D, ball of radius 3", solid, half_ball(3, 3, 9));
    return 0;
}
