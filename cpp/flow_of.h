// A Flow on one type of network.
#pragma once

#include "flow.h"
#include "max_flow.h"
#include "max_flow_check.h"

namespace dope {

template <class Interface, class Network>
class FlowOf : public Interface {
  public:
    FlowOf(Network network, double scale) : flow_(std::move(network), scale) {}

    void minimize(const double* unary, const Poll& poll) override {
        const typename Interface::Turn turn(*this);
        flow_.minimize(unary, poll);
    }
    void change(const std::int64_t* sites, const double* unary, std::size_t count,
                const Poll& poll) override {
        const typename Interface::Turn turn(*this);
        flow_.change(sites, unary, count, poll);
    }
    void labels(bool largest, bool* out, const Poll& poll) override {
        const typename Interface::Turn turn(*this);
        flow_.labels(largest, out, poll);
    }
    double value() const override {
        const typename Interface::Turn turn(*this);
        return flow_.value();
    }
    ExactSum minimum() const override {
        const typename Interface::Turn turn(*this);
        return flow_.minimum();
    }
    void check() override {
        const typename Interface::Turn turn(*this);
        flow_.check();
    }
    std::size_t bytes() const override { return flow_.bytes(); }

  protected:
    MaxFlow<Network> flow_;
};

}  // namespace dope
