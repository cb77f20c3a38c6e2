// What sequential tree-reweighted message passing does at one site: all its loops over labels.
#pragma once

#include <span>
#include <vector>

#include "compensated_sum.h"
#include "label_metric.h"

namespace dope {

// A pair of the site at hand, whose message is turned round or was turned towards it before.
struct PairAtHand {
    Index slot;  // of its message
    double weight;
    const double* table;  // its own, of the lower site's label first; or null: the metric tells
    Index label;          // of the other end, if that lies behind
};

// Room for a site's numbers, one for every label; grows and shrinks with nothing.
class LabelRoom {
  public:
    explicit LabelRoom(Index labels);

    // Each may also be read, not written, as far outside as there are labels: infinity is there.
    double* one() { return one_.data() + labels_; }
    double* two() { return two_.data() + labels_; }
    double* theta() { return theta_.data(); }
    double* choice() { return choice_.data(); }
    double* borders() { return borders_.data(); }
    Index* hull() { return hull_.data(); }

  private:
    Index labels_;
    std::vector<double> one_, two_, theta_, choice_, borders_;
    std::vector<Index> hull_;
};

// f(b) = min_a (h(a) + w V(a, b)) - least, where least is such that the least f is 0. Both are in
// `room`: h in one(), which is lost. What is returned is least; f points to f. With `down`, a is
// the label of the pair's higher site.
struct TurnedMessage {
    double least;
    double* f;
};
TurnedMessage turned(const LabelMetric& metric, double weight, const double* table, bool down,
                     LabelRoom& room);

// One visit to a site.
template <class Message>
struct SiteVisit {
    const LabelMetric* metric;
    LabelRoom* room;    // theta() holds the site's costs at first
    Message* messages;  // of all pairs: those of slot s begin at s * labels
    std::span<const PairAtHand> behind, ahead;
    bool down;
    double part;  // of what is left at the site, for each pair ahead

    // What comes out.
    Index label;
    double cost;            // of the label: at the site and to those behind
    CompensatedSum* lower;  // terms of the bound are added there
};
void visit_site(SiteVisit<float>& visit);
void visit_site(SiteVisit<double>& visit);

}  // namespace dope
