#include "plimsoll/core/proof.h"

#include <gtest/gtest.h>

#include <set>

namespace plimsoll {
namespace {

TEST(Proof, EveryKindHasASentenceOfItsOwnThatIsReadBack) {
  std::set<std::string> sentences;
  int num_kinds = 0;
  for (int k = static_cast<int>(ProofKind::kStated) + 1;
       k <= static_cast<int>(ProofKind::kDynamicProgram); ++k, ++num_kinds) {
    SCOPED_TRACE(k);
    Proof proof = static_cast<ProofKind>(k);
    EXPECT_FALSE(to_string(proof).empty());
    EXPECT_TRUE(sentences.insert(to_string(proof)).second) << to_string(proof);
    EXPECT_EQ(parse_proof(to_string(proof)).kind, proof.kind);
    proof.is_lowered = true;
    EXPECT_EQ(parse_proof(to_string(proof)), proof);
  }
  EXPECT_GT(num_kinds, 50);
}

TEST(Proof, WitnessesStandInTheSentence) {
  Proof prices = ProofKind::kPrices;
  prices.count = 15;
  prices.words = "branched_patterns";
  EXPECT_EQ(to_string(prices), "prices of 15 case(s), branched_patterns");
  EXPECT_EQ(parse_proof(to_string(prices)), prices);

  Proof search = ProofKind::kSearchToTheEnd;
  search.ms = 2.125;
  search.count = 40;
  EXPECT_EQ(to_string(search), "search to the end for a plan of 2.125 ms, 40 nodes");
  EXPECT_EQ(parse_proof(to_string(search)), search);
}

TEST(Proof, OtherSentencesAreKeptAsTheyAre) {
  for (const char* text : {"told", "search to the end", "prices of many case(s), average",
                           "search to the end for a plan of 1 ms, 007 nodes", "branch and cut ",
                           "; bounded with every choice as cheap as one left out could be"}) {
    SCOPED_TRACE(text);
    const Proof proof = parse_proof(text);
    EXPECT_EQ(proof.kind, ProofKind::kStated);
    EXPECT_EQ(to_string(proof), text);
  }
  EXPECT_EQ(parse_proof("").kind, ProofKind::kNone);
  EXPECT_EQ(to_string(Proof()), "");
}

}  // namespace
}  // namespace plimsoll
