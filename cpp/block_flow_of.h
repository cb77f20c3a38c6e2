// A BlockFlow on one type of network.
#pragma once

#include <optional>

#include "blocks.h"

namespace dope {

template <class Network>
class BlockFlowOf : public BlockFlow {
  public:
    std::size_t blocks() const override { return network_.blocks(); }
    std::size_t sites(std::size_t k) const override { return blocks_->sites(k); }
    std::size_t group(std::size_t k) const override { return blocks_->group(k); }
    std::vector<std::size_t> members(std::size_t g) const override { return blocks_->members(g); }
    std::vector<std::size_t> neighbors(std::size_t k) const override {
        return network_.neighbors(k);
    }

    void finish() override { blocks_.emplace(network_, scale_); }

    void wall_in(std::size_t k) override { blocks_->wall_in(k); }
    void price(std::size_t k, const double* unary, const double* before) override {
        require_numbers(unary, sites(k));
        blocks_->price(k, unary, before);
    }
    void balance(std::size_t k, bool shifted) override { blocks_->balance(k, shifted); }
    void solve(std::size_t g, const Poll& poll) override { blocks_->solve(g, poll); }
    void labels(std::size_t k, bool of_all, bool* out) const override {
        blocks_->labels(k, of_all, out);
    }
    ExactSum bound(std::size_t k) const override { return blocks_->bound(k); }
    std::vector<WallFlow> flows(std::size_t k) const override { return blocks_->flows(k); }
    Survey survey(std::size_t k) override { return blocks_->survey(k); }
    void bracket(std::size_t k, bool outside, bool* out, const Poll& poll) override {
        blocks_->bracket(k, outside, out, poll);
    }
    void discharge(std::size_t g, const Poll& poll) override { blocks_->discharge(g, poll); }
    void check(std::size_t g) override { blocks_->check(g); }
    void part(std::size_t k) override { blocks_->part(k); }
    void regroup() override { blocks_->regroup(); }

    bool certify() override { return blocks_->certify(); }
    ExactSum push() override { return blocks_->push(); }
    std::vector<std::size_t> changed() const override { return blocks_->changed(); }
    std::vector<Dispute> disputes() const override { return blocks_->disputes(); }
    void merge(std::size_t g, std::size_t h) override { blocks_->merge(g, h); }
    void measure() override { blocks_->measure(); }
    void deliver() override { blocks_->deliver(); }
    std::vector<WallFlow> pushed() const override { return blocks_->pushed(); }
    void impose(const std::vector<WallFlow>& flows) override {
        for (const WallFlow& flow : flows) blocks_->impose(flow);
    }
    std::size_t bytes() const override { return blocks_->bytes(); }

    std::vector<char> save(std::size_t k) const override { return blocks_->save(k); }
    void load(std::size_t k, const char* saved, std::size_t size) override {
        blocks_->load(k, saved, size);
    }
    std::vector<std::span<std::byte>> stores() override { return blocks_->stores(); }
    void hold(std::size_t k, const std::uint8_t* held) override { blocks_->hold(k, held); }
    void carry(std::size_t k, const std::vector<WallFlow>& flows) override {
        blocks_->carry(k, flows);
    }
    std::vector<WallFlow> wall_flows(std::size_t k) const override {
        return blocks_->wall_flows(k);
    }
    void surround(const std::vector<Distance>& around) override { blocks_->surround(around); }
    void measure_from(std::size_t k, std::int32_t most) override { blocks_->measure_from(k, most); }
    std::vector<Distance> border(std::size_t k) const override { return blocks_->border(k); }
    std::vector<std::int64_t> reach(std::size_t k, const std::vector<std::int64_t>& from) override {
        return blocks_->reach(k, from);
    }

  protected:
    BlockFlowOf(Network network, double scale) : network_(std::move(network)), scale_(scale) {}

    Network network_;
    double scale_;
    std::optional<Blocks<Network>> blocks_;  // once there are capacities
};

}  // namespace dope
