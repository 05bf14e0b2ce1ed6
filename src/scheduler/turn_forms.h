// The forms of a turn that the host waits for, and which of them stays. Where it begins with uploads which may go when
// they come (graph_copies.cc) there are three:
//
//   leads      those uploads go at once, and a graph is the rest
//   whole      they are nodes of the graph, too
//   launches   nothing is held back, and nothing is a graph
//
// Else there is nothing to go at once: the first is called `graphs`, and there is no `whole`. Such turns are tried
// where graphs are to be had on a device that has nothing queued only if they are faster (graphs=measured); where
// `launches` stays, what recurs is a graph as long as the device has enough to do.
//
// What decides is how long the link, the host and the launches take beside each other, which nobody knows beforehand.
// So each form has some turns in a row, as the program runs anyway, and the one stays whose turns take the least from
// the begin of one to the begin of the next, by the host's clock: what the program waits for.
//
//   turns     steady ─▶ leads · · whole · · launches ─▶ leads · · whole · · launches ─▶ leads ─▶ ··· the chosen one
//             kSteady   └ each a block: kSettle, then kCounted, and three a round; kRounds to kMostRounds of them
//
// A turn counts if it was what its form says: GraphLowering looks (graph_turns.cc). In a round a form is better than
// the first where its block is shorter by enough than what the blocks of the first before and after it lead one to
// expect in between, and than each of them: so neither what gets faster by itself (a clock that rises) nor what slows
// one block of the first down is taken for the form's. What is clearly better in each of kRounds rounds, or not at all
// in any, is known by then. Of others one round was disturbed (by another program, or a host that did something else
// for a while), or the difference is small: they have more rounds, and stay where they are better by a little in most
// of kMostRounds. The median of a block stands for it: half of its turns may be disturbed, and what a program waits for
// is not its luckiest turns. (Forms whose shortest turns were alike differed by 3 % in their medians on a link that is
// fast or slow by turns.)
//
// While forms are tried the program repeats its turn, and the driver's code and what it keeps of a graph are where the
// host has them at once. After something else they are not, and it is the calls at a turn's begin, until the link is
// busy, that the device waits for: extra_ns() is added to what each form's turns took. (Six programs on an H200 whose
// turns came between others' took longer than their trials had said, by 8 us as `whole`, 6 as `leads`, 3 to 14 as
// `launches`, of 6 to 30 pieces.)
//
// What stays, found or not, has the same done to it later (again()): it is the first then, the others have to be better
// than it. Where they cannot be compared with it, it stays.
//
// Guarded by the scheduler's lock.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/scheduler/graph_report.h"
#include "src/scheduler/passed_turns.h"

namespace pergola::scheduler {

enum class TurnForm : std::uint8_t { kLeads, kWhole, kLaunches };
inline constexpr std::size_t kTurnForms = 3;

class TurnForms {
 public:
  // Of the first form, one after the other that would count, before another is tried: its graphs are there, the host
  // waits for each turn, and nothing else comes.
  static constexpr std::uint32_t kSteady = 4;
  // Those at a block's begin that do not count: the device may still have some of the form before to do, and a graph's
  // first launch brings it there. As many after each turn that is disturbed.
  static constexpr std::uint32_t kSettle = 2;
  // Tried again, so many of what was chosen before its blocks: about a third of the turns are of others then, and a
  // program that looks at some dozens of its turns has what was chosen in most of them.
  static constexpr std::uint32_t kSettleAgain = 32;
  static constexpr std::size_t kCounted = 6, kRounds = 2;  // twelve of each form, and
                                                           // six more of the first
  static constexpr std::size_t kMostRounds = 8;            // of which it has to be a little better in kMost
  static constexpr std::size_t kMost = 6;
  // Than the first form another has to be shorter by so much, in a round, to be clearly better: the clock and a wait's
  // end are about a microsecond exact, and two percent is what turns differ by from block to block where they are the
  // same. And by so much to be a little better: where turns vary by 2 % luck makes that of a form that is not in less
  // than one trial of thirty, where they vary by 5 % in one of nine.
  static constexpr double kGain = 0.98, kGainNs = 1000;
  static constexpr double kLittleGain = 0.993, kLittleGainNs = 300;
  // What calls take more where the host did something else before: a graph's launch, beside an upload that the link is
  // busy with or before anything is, and each of the calls of a turn that is no graph.
  static constexpr double kColdLeadsNs = 6000, kColdWholeNs = 8000, kColdPieceNs = 450;
  static constexpr std::size_t kMostColdPieces = 30;  // by then the link is busy, or the driver's code is where it is
  // What takes so much longer than the first form in its first round is given up after kCountedAtLeast.
  static constexpr double kHopeless = 1.25;
  static constexpr std::size_t kCountedAtLeast = 2;
  // Turns of a block that do not count before it is given up; and how often that may be one of the first form. Of what
  // was chosen before it may be none, and no more turns before the first block.
  static constexpr std::uint32_t kMostDisturbed = 12, kMostGivenUp = 4;
  // A program that never waits for its turns pays for nothing: after so many turns of which none counted most pass.
  static constexpr std::uint32_t kUnsteady = 256, kPassed = PassedTurns::kPassed;

  enum class Turn : std::uint8_t {
    kCounts,
    kDisturbed,  // something else came, or what should be a graph was none
    kMaking,     // the same, as graphs or their ways are being made or tried: that ends by itself
  };

  // `has_uploads`: of turns that begin with some. `tries`: else the first form is chosen as it is. `pieces`: of work in
  // a turn; 0: calls are not counted.
  explicit TurnForms(bool has_uploads = true, bool tries = true, std::size_t pieces = 0);
  // Of turns for which `chosen` was, which `on_idle` are held on an idle device: whether another has come to be better.
  static TurnForms again(bool has_uploads, TurnForm chosen, bool on_idle, std::size_t pieces = 0);
  bool is_again() const { return is_again_; }
  bool is_first(TurnForm form) const { return forms_[0].form == form; }
  TurnForm current() const { return forms_[at_].form; }  // of the next turn
  bool is_under_way() const { return round_ != 0 && !decided_; }
  bool is_decided() const { return decided_; }  // for current()
  // Decided, and current() is one of graphs that was compared with launches to the end and found to take no longer, now
  // or before.
  bool prefers_graphs() const;
  // Decided, and at least one round of it is known.
  bool was_compared() const { return decided_ && forms_[0].rounds.size() > 1; }
  // Turns before the first block, but for those in which something was being made.
  std::uint32_t unsteady_turns() const { return unsteady_; }
  // A turn of current() has taken so long.
  void ended(Turn how, double ns);
  // A turn begins. Where none has counted for long, most need not be looked at: whether this one need not.
  bool passes();
  // Whether the one before it was passed, so that it is not known how that was.
  bool has_passed() { return std::exchange(has_passed_, false); }
  // This form cannot be, or is not worth what it would do to the others; nothing where it is not current() any more.
  void drop(TurnForm form, std::string why);
  // Whether report() is another than when this was asked the last time.
  bool has_changed() { return std::exchange(changed_, false); }
  // Empty before the first block.
  std::vector<WayReport> report() const;

 private:
  struct Block {
    double ns = 0;            // what stands for it
    std::uint64_t ended = 0;  // turns by then
  };
  struct Form {
    TurnForm form = TurnForm::kLeads;
    std::vector<double> block_ns;  // of the block under way
    std::vector<Block> rounds;
    std::uint64_t counted = 0;
    std::string dropped;       // why; "" where it is not
    bool is_out = false;       // of the rounds to come
    bool beats_first = false;  // as it turned out, which has no more rounds
    double shorter = 0;        // then by what part of the first's turns, in the median
    double took_ns() const;    // 0: not known
  };

  void begin_block(std::size_t at);
  void end_block();
  void give_up_block();
  void next_block();
  void decide();
  bool is_hopeless() const;
  std::uint32_t turns_to_settle() const { return is_again_ && at_ == 0 ? kSettleAgain : kSettle; }
  const Form& of(TurnForm form) const;
  bool is_one(const Form& form) const { return has_uploads_ || form.form != TurnForm::kWhole; }
  bool goes_on(const Form& form) const { return !form.is_out && !form.beats_first; }
  double expected_ns(const Form& form, std::size_t round) const;
  double extra_ns(TurnForm form) const;
  void judge(Form& form) const;

  bool has_uploads_;
  std::size_t pieces_;
  std::array<Form, kTurnForms> forms_;
  std::size_t at_ = 0;
  std::uint32_t round_ = 0;  // from 1; 0: the first form is not steady yet
  std::uint32_t steady_ = 0, unsteady_ = 0, settled_ = 0, disturbed_ = 0, given_up_ = 0;
  std::uint64_t turns_ = 0;
  bool decided_ = false, changed_ = false;
  bool is_again_ = false, was_on_idle_ = false;
  PassedTurns passed_;
  bool has_passed_ = false;
};

}  // namespace pergola::scheduler
