#include "src/scheduler/turn_forms.h"

#include <algorithm>

#include "src/base/log.h"
#include "src/scheduler/median.h"

namespace pergola::scheduler {
namespace {

struct Text {
  std::string_view name, why;
};
constexpr Text kTexts[kTurnForms] = {
    // by TurnForm, of turns that begin with uploads
    {"leads", "uploads that a turn begins with go at once, and a graph is the rest"},
    {"whole", "uploads that a turn begins with are part of a graph, too"},
    {"launches", "nothing is held back, and nothing is a graph"},
};

constexpr Text kOthers[kTurnForms] = {
    {"graphs", "launches are held back whatever the device has queued, and are graphs"},
    {"whole", ""},
    {"launches", "launches are held back only while the device has enough to do"},
};

const Text& text_of(TurnForm form, bool has_uploads) {
  return (has_uploads ? kTexts : kOthers)[static_cast<std::size_t>(form)];
}

}  // namespace

TurnForms::TurnForms(bool has_uploads, bool tries, std::size_t pieces)
    : has_uploads_(has_uploads), pieces_(pieces), decided_(!tries) {
  for (std::size_t i = 0; i < kTurnForms; ++i) forms_[i].form = static_cast<TurnForm>(i);
  forms_[static_cast<std::size_t>(TurnForm::kWhole)].is_out = !has_uploads;
}

TurnForms TurnForms::again(bool has_uploads, TurnForm chosen, bool on_idle, std::size_t pieces) {
  TurnForms forms(has_uploads, true, pieces);
  const auto at = forms.forms_.begin() + static_cast<std::ptrdiff_t>(chosen);
  std::rotate(forms.forms_.begin(), at, at + 1);
  forms.is_again_ = true;
  forms.was_on_idle_ = on_idle;
  return forms;
}

const TurnForms::Form& TurnForms::of(TurnForm form) const {
  return *std::find_if(forms_.begin(), forms_.end(), [&](const Form& each) { return each.form == form; });
}

bool TurnForms::prefers_graphs() const {
  const Form& launches = of(TurnForm::kLaunches);
  const bool are_known = (!launches.rounds.empty() && launches.dropped.empty()) || was_on_idle_;
  return decided_ && current() != TurnForm::kLaunches && are_known;
}

double TurnForms::Form::took_ns() const {
  double sum = 0;
  for (const Block& block : rounds) sum += block.ns;
  return rounds.empty() ? 0 : sum / static_cast<double>(rounds.size());
}

void TurnForms::ended(Turn how, double ns) {
  if (decided_) return;
  ++turns_;
  if (round_ == 0) {
    steady_ = how == Turn::kCounts ? steady_ + 1 : 0;
    unsteady_ += how == Turn::kMaking ? 0 : 1;
    if (steady_ < kSteady) {
      decided_ = is_again_ && unsteady_ > kMostDisturbed;
      return;
    }
    round_ = 1;
    changed_ = true;
    begin_block(0);
    return;
  }
  if (how != Turn::kCounts) {
    settled_ = std::min(settled_, turns_to_settle() - kSettle);
    if (how == Turn::kDisturbed && ++disturbed_ > kMostDisturbed + settled_ / 2) give_up_block();
    return;
  }
  if (settled_++ < turns_to_settle()) return;
  forms_[at_].block_ns.push_back(ns);
  ++forms_[at_].counted;
  if (forms_[at_].block_ns.size() == kCounted || is_hopeless()) end_block();
}

bool TurnForms::passes() {
  if (decided_ || round_ != 0 || steady_ != 0 || unsteady_ < kUnsteady) return false;
  return passed_.passes() && (has_passed_ = true);
}

void TurnForms::begin_block(std::size_t at) {
  at_ = at;
  settled_ = disturbed_ = 0;
  forms_[at].block_ns.clear();
}

// Of the same round.
bool TurnForms::is_hopeless() const {
  const std::vector<double>& turns = forms_[at_].block_ns;
  if (at_ == 0 || turns.size() < kCountedAtLeast) return false;
  const double first = forms_[0].rounds.back().ns + extra_ns(forms_[0].form);
  return *std::min_element(turns.begin(), turns.end()) + extra_ns(current()) > kHopeless * first;
}

void TurnForms::end_block() {
  Form& form = forms_[at_];
  form.is_out = form.rounds.empty() && is_hopeless();  // later: a round in which it is not better
  form.rounds.push_back({median(form.block_ns), turns_});
  next_block();
}

void TurnForms::drop(TurnForm form, std::string why) {
  if (decided_ || at_ == 0 || current() != form) return;
  forms_[at_].dropped = std::move(why);
  forms_[at_].is_out = true;
  next_block();
}

// The first form's: all begins again once that is steady.
void TurnForms::give_up_block() {
  if (at_ != 0) return drop(current(), "of its turns too few were undisturbed and as it says");
  changed_ = true;
  if (is_again_) return decide();
  TurnForms anew(has_uploads_, ++given_up_ < kMostGivenUp, pieces_);
  anew.given_up_ = given_up_;
  anew.changed_ = true;
  *this = std::move(anew);
}

// A round is known with the block of the first form that comes behind it, with which the next round begins.
void TurnForms::next_block() {
  changed_ = true;
  if (at_ == 0)
    for (std::size_t i = 1; i < kTurnForms; ++i) judge(forms_[i]);
  for (std::size_t at = at_ + 1; at < kTurnForms; ++at)
    if (goes_on(forms_[at])) return begin_block(at);
  const bool was_round = at_ != 0;
  const bool any = std::any_of(forms_.begin() + 1, forms_.end(), [&](const Form& form) { return goes_on(form); });
  if (!was_round || !any) return decide();
  ++round_;
  begin_block(0);
}

// What a block of the first form in this one's place would have taken. One that was slow stands before and after two
// rounds: a form that is no shorter than the faster neighbour is not better, so no more than that is expected.
double TurnForms::expected_ns(const Form& form, std::size_t round) const {
  const Block &before = forms_[0].rounds[round], &after = forms_[0].rounds[round + 1];
  const double part =
      static_cast<double>(form.rounds[round].ended - before.ended) / static_cast<double>(after.ended - before.ended);
  return std::min({before.ns + part * (after.ns - before.ns), before.ns / kGain, after.ns / kGain});
}

double TurnForms::extra_ns(TurnForm form) const {
  if (!has_uploads_ || pieces_ == 0) return 0;
  switch (form) {
    case TurnForm::kLeads: return kColdLeadsNs;
    case TurnForm::kWhole: return kColdWholeNs;
    case TurnForm::kLaunches: return kColdPieceNs * static_cast<double>(std::min(pieces_, kMostColdPieces));
  }
  return 0;
}

void TurnForms::judge(Form& form) const {
  const std::size_t rounds = form.rounds.size();
  if (!goes_on(form) || rounds < kRounds || forms_[0].rounds.size() <= rounds) return;
  std::size_t clearly = 0, better = 0;
  std::vector<double> ratios;
  for (std::size_t i = 0; i < rounds; ++i) {
    const double first = expected_ns(form, i) + extra_ns(forms_[0].form);
    const double took = form.rounds[i].ns + extra_ns(form.form);
    clearly += took < std::min(first * kGain, first - kGainNs) ? 1 : 0;
    better += took < std::min(first * kLittleGain, first - kLittleGainNs) ? 1 : 0;
    ratios.push_back(took / first);
  }
  form.shorter = 1 - median(std::move(ratios));
  form.beats_first = clearly == rounds || (rounds == kMostRounds && better >= kMost);
  form.is_out = !form.beats_first && (better == 0 || rounds == kMostRounds);
}

void TurnForms::decide() {
  decided_ = true;
  at_ = 0;
  for (std::size_t i = 1; i < kTurnForms; ++i)
    if (forms_[i].beats_first && (at_ == 0 || forms_[i].shorter > forms_[at_].shorter)) at_ = i;
  std::string times;
  for (const Form& form : forms_)
    if (is_one(form))
      times += fmt::format("{}{} {:.1f} us", times.empty() ? "" : ", ", text_of(form.form, has_uploads_).name,
                           form.took_ns() * 1e-3);
  const Text& chosen = text_of(current(), has_uploads_);
  PERGOLA_INFO("turns{} go as '{}' from now on ({}): {}", has_uploads_ ? " that begin with uploads" : "", chosen.name,
               times, chosen.why);
}

std::vector<WayReport> TurnForms::report() const {
  std::vector<WayReport> told;
  if (round_ == 0) return told;
  for (std::size_t i = 0; i < kTurnForms; ++i) {
    const Form& form = of(static_cast<TurnForm>(i));
    if (!is_one(form)) continue;
    WayReport& one = told.emplace_back();
    const Text& text = text_of(form.form, has_uploads_);
    one.name = text.name;
    one.why = form.dropped.empty() ? text.why : form.dropped;
    if (const double extra = extra_ns(form.form); extra != 0 && form.dropped.empty())
      one.why += fmt::format(" ({:.1f} us more are counted for its calls)", extra * 1e-3);
    one.best_ns = form.took_ns();
    one.tries = form.counted;
    one.state = WayReport::State::kTried;
    if (!form.dropped.empty())
      one.state = WayReport::State::kRefused;
    else if (decided_)
      one.state = &form == &forms_[at_] ? WayReport::State::kKept : WayReport::State::kPutBack;
  }
  return told;
}

}  // namespace pergola::scheduler
