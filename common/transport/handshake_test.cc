#include "common/transport/handshake.h"

#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace ringmaster {
namespace {

using ::testing::HasSubstr;

constexpr std::string_view kSecret = "0123456789abcdef0123456789abcdef";

Nonce NonceOf(uint8_t seed) {
  Nonce nonce;
  nonce.fill(std::byte{seed});
  return nonce;
}

LinkIdentity SomeLink() {
  LinkIdentity link;
  link.job = 11;
  link.generation = 5;
  link.from_rank = 2;
  link.to_rank = 3;
  return link;
}

RefusalReason AdmitRank2(const HandshakeMessage& hello) {
  return hello.from_rank == 2 ? RefusalReason::kNone
                              : RefusalReason::kUnexpectedRank;
}

Handshake SomeAcceptor(std::string_view secret = kSecret) {
  return Handshake::Acceptor(SomeLink(), secret, NonceOf(9), AdmitRank2);
}

// The result of running both sides to the end: what the acceptor reported and
// what the connector saw.
struct Outcome {
  absl::Status connector;
  absl::Status acceptor;
  bool is_complete = false;
};

Outcome RunBoth(Handshake connector, Handshake acceptor) {
  Outcome outcome;
  HandshakeMessage to_acceptor = connector.Start();
  bool acceptor_complete = false;
  for (int round = 0; round < 4; ++round) {
    auto answer = acceptor.OnMessage(to_acceptor);
    if (!answer.ok()) {
      outcome.acceptor = answer.status();
      return outcome;
    }
    outcome.acceptor = answer->refused;
    acceptor_complete = answer->is_complete;
    auto reply = connector.OnMessage(*answer->send);
    outcome.connector = reply.status();
    if (!reply.ok()) return outcome;
    if (reply->is_complete) {
      outcome.is_complete = acceptor_complete;
      return outcome;
    }
    to_acceptor = *reply->send;
  }
  return outcome;
}

TEST(HandshakeTest, CompletesBetweenThoseWhoKnowTheSecret) {
  Handshake acceptor = SomeAcceptor();
  const Outcome outcome =
      RunBoth(Handshake::Connector(SomeLink(), kSecret, NonceOf(1)), acceptor);
  EXPECT_TRUE(outcome.is_complete) << outcome.connector << outcome.acceptor;
}

TEST(HandshakeTest, RefusesAWrongSecretAndNamesBothSides) {
  const Outcome outcome =
      RunBoth(Handshake::Connector(
                  SomeLink(), "another secret of 32 characters!", NonceOf(1)),
              SomeAcceptor());
  EXPECT_FALSE(outcome.is_complete);
  EXPECT_TRUE(absl::IsUnauthenticated(outcome.acceptor));
  EXPECT_THAT(outcome.acceptor.message(),
              HasSubstr("rank 3 (generation 5) refused rank 2"));
  EXPECT_TRUE(absl::IsUnauthenticated(outcome.connector));
  EXPECT_THAT(outcome.connector.message(), HasSubstr("refused by rank 3"));
}

TEST(HandshakeTest, RefusesAnotherJobGenerationOrRank) {
  struct Case {
    LinkIdentity link;
    absl::StatusCode acceptor;
    absl::StatusCode connector;
  };
  Case other_job{SomeLink(), absl::StatusCode::kFailedPrecondition,
                 absl::StatusCode::kUnavailable};
  other_job.link.job = 12;
  Case stale{SomeLink(), absl::StatusCode::kAborted,
             absl::StatusCode::kAborted};
  stale.link.generation = 4;
  Case future{SomeLink(), absl::StatusCode::kUnavailable,
              absl::StatusCode::kUnavailable};
  future.link.generation = 6;
  Case wrong_target{SomeLink(), absl::StatusCode::kFailedPrecondition,
                    absl::StatusCode::kFailedPrecondition};
  wrong_target.link.to_rank = 4;
  Case wrong_source = wrong_target;
  wrong_source.link = SomeLink();
  wrong_source.link.from_rank = 7;
  for (const Case& c : {other_job, stale, future, wrong_target, wrong_source}) {
    const Outcome outcome = RunBoth(
        Handshake::Connector(c.link, kSecret, NonceOf(1)), SomeAcceptor());
    EXPECT_EQ(outcome.acceptor.code(), c.acceptor) << outcome.acceptor;
    EXPECT_EQ(outcome.connector.code(), c.connector) << outcome.connector;
    EXPECT_THAT(outcome.acceptor.message(), HasSubstr("rank 3"));
  }
}

// An attacker who took the name of rank 3's Unix socket relays everything to it
// over TCP, and may change what either side says about the transport.
TEST(HandshakeTest, RefusesARelayFromOneTransportToAnother) {
  LinkIdentity over_unix = SomeLink();
  over_unix.transport = Transport::kUnix;
  const Outcome honest = RunBoth(
      Handshake::Connector(over_unix, kSecret, NonceOf(1)), SomeAcceptor());
  EXPECT_FALSE(honest.is_complete);
  EXPECT_TRUE(absl::IsFailedPrecondition(honest.acceptor));
  EXPECT_EQ(honest.acceptor.message(),
            "rank 3 (generation 5) refused rank 2 (generation 5): it connected "
            "over unix and reached us over tcp, so somebody in between relays "
            "it");
  EXPECT_TRUE(absl::IsFailedPrecondition(honest.connector));
  EXPECT_THAT(honest.connector.message(),
              HasSubstr("refused by rank 3 (generation 5): whoever listens "
                        "here over unix relays us"));

  Handshake connector = Handshake::Connector(over_unix, kSecret, NonceOf(1));
  Handshake acceptor = SomeAcceptor();
  HandshakeMessage hello = connector.Start();
  hello.transport = Transport::kTcp;
  const auto challenge = acceptor.OnMessage(hello);
  ASSERT_TRUE(challenge.ok());
  const auto proof = connector.OnMessage(*challenge->send);
  ASSERT_TRUE(proof.ok());
  EXPECT_TRUE(
      absl::IsUnauthenticated(acceptor.OnMessage(*proof->send)->refused));
}

TEST(HandshakeTest, TellsARankThatItIsConnectedAlready) {
  const Outcome outcome =
      RunBoth(Handshake::Connector(SomeLink(), kSecret, NonceOf(1)),
              Handshake::Acceptor(SomeLink(), kSecret, NonceOf(9),
                                  [](const HandshakeMessage&) {
                                    return RefusalReason::kAlreadyConnected;
                                  }));
  EXPECT_TRUE(absl::IsUnavailable(outcome.connector));
  EXPECT_THAT(outcome.acceptor.message(), HasSubstr("connected already"));
}

TEST(HandshakeTest, ConnectorUnmasksAnAcceptorWithoutTheSecret) {
  Handshake connector = Handshake::Connector(SomeLink(), kSecret, NonceOf(1));
  HandshakeMessage challenge = connector.Start();
  challenge.type = HandshakeType::kChallenge;
  challenge.proof = NonceOf(9);
  const auto proof = connector.OnMessage(challenge);
  ASSERT_TRUE(proof.ok());
  HandshakeMessage reflected =
      *proof->send;  // the connector's own MAC thrown back at it
  reflected.type = HandshakeType::kAccept;
  EXPECT_TRUE(absl::IsUnauthenticated(connector.OnMessage(reflected).status()));
}

TEST(HandshakeTest, ARecordedProofIsWorthlessAgainstAnotherNonce) {
  Handshake first = SomeAcceptor();
  Handshake connector = Handshake::Connector(SomeLink(), kSecret, NonceOf(1));
  const HandshakeMessage hello = connector.Start();
  const HandshakeMessage proof =
      *connector.OnMessage(*first.OnMessage(hello)->send)->send;
  Handshake second =
      Handshake::Acceptor(SomeLink(), kSecret, NonceOf(10), AdmitRank2);
  ASSERT_TRUE(second.OnMessage(hello).ok());
  EXPECT_TRUE(absl::IsUnauthenticated(second.OnMessage(proof)->refused));
}

TEST(HandshakeTest, RefusesMessagesOutOfOrder) {
  Handshake acceptor = SomeAcceptor();
  HandshakeMessage proof;
  proof.type = HandshakeType::kProof;
  EXPECT_TRUE(absl::IsFailedPrecondition(acceptor.OnMessage(proof).status()));
  Handshake connector = Handshake::Connector(SomeLink(), kSecret, NonceOf(1));
  HandshakeMessage accept;
  accept.type = HandshakeType::kAccept;
  EXPECT_TRUE(absl::IsFailedPrecondition(connector.OnMessage(accept).status()));
}

TEST(HandshakeTest, MessagesComeBackFromTheirEncoding) {
  HandshakeMessage message =
      Handshake::Connector(SomeLink(), kSecret, NonceOf(1)).Start();
  message.reason = RefusalReason::kWrongSecret;
  message.role = LinkRole::kSnapshot;
  message.transport = Transport::kUnix;
  message.stripe = 15;
  const auto parsed = ParseHandshake(EncodeHandshake(message));
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(*parsed, message);
}

TEST(HandshakeTest, RefusesBytesThatAreNoHandshake) {
  HandshakeMessage message;
  for (const size_t at : {0u, 4u, 6u, 7u, 32u, 33u, 34u}) {
    HandshakeBytes bytes = EncodeHandshake(message);
    bytes[at] = std::byte{0x77};
    EXPECT_TRUE(absl::IsFailedPrecondition(ParseHandshake(bytes).status()))
        << at;
  }
}

TEST(HandshakeTest, KnowsAStrangerByItsFirstBytes) {
  const auto check = [](std::string_view text) {
    return CheckHandshakeStart(std::as_bytes(std::span(text)));
  };
  for (const std::string_view start : {"", "R", "RMRH", "RMRH and more"})
    EXPECT_TRUE(check(start).ok()) << start;
  EXPECT_TRUE(absl::IsFailedPrecondition(check("\x16\x03")));
  EXPECT_EQ(check("GET / HTTP/1.1\r\n").message(),
            "the peer does not speak our protocol: it began with \"GET \", not "
            "with a handshake");
}

// A field that the MAC left out could be forged.
TEST(HandshakeTest, MacDependsOnEveryInput) {
  const Mac mac = ComputeMac(kSecret, HandshakeSide::kConnector, SomeLink(),
                             NonceOf(1), NonceOf(2));
  EXPECT_NE(mac, ComputeMac("x", HandshakeSide::kConnector, SomeLink(),
                            NonceOf(1), NonceOf(2)));
  EXPECT_NE(mac, ComputeMac(kSecret, HandshakeSide::kAcceptor, SomeLink(),
                            NonceOf(1), NonceOf(2)));
  EXPECT_NE(mac, ComputeMac(kSecret, HandshakeSide::kConnector, SomeLink(),
                            NonceOf(2), NonceOf(1)));
  for (int field = 0; field < 7; ++field) {
    LinkIdentity link = SomeLink();
    if (field == 0) link.job++;
    if (field == 1) link.generation++;
    if (field == 2) link.from_rank++;
    if (field == 3) link.to_rank++;
    if (field == 4) link.role = LinkRole::kSnapshot;
    if (field == 5) link.transport = Transport::kUnix;
    if (field == 6) link.stripe = 1;
    EXPECT_NE(mac, ComputeMac(kSecret, HandshakeSide::kConnector, link,
                              NonceOf(1), NonceOf(2)));
  }
}

std::string Hex(const FrameKey& key) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(key.data()), key.size()));
}

TEST(HandshakeTest, BothSidesComeToTheSameKeysOneForEachDirection) {
  Handshake connector = Handshake::Connector(SomeLink(), kSecret, NonceOf(1));
  Handshake acceptor = SomeAcceptor();
  const auto challenge = acceptor.OnMessage(connector.Start());
  const auto proof = connector.OnMessage(*challenge->send);
  const auto accept = acceptor.OnMessage(*proof->send);
  ASSERT_TRUE(connector.OnMessage(*accept->send)->is_complete);
  EXPECT_EQ(connector.Keys().send, acceptor.Keys().receive);
  EXPECT_EQ(connector.Keys().receive, acceptor.Keys().send);
  EXPECT_NE(connector.Keys().send, connector.Keys().receive);
}

TEST(HandshakeTest, AKeyIsThatOfHkdfSha256) {
  // Computed with Python's hmac and hashlib.
  EXPECT_EQ(Hex(DeriveKey(kSecret, HandshakeSide::kConnector, SomeLink(),
                          NonceOf(1), NonceOf(9))),
            "964d75f73747a17feb3aca02848374a765c3c372a8c048cbd5ec0670500017b8");
}

TEST(HandshakeTest, AKeyDependsOnEveryInput) {
  std::set<std::string> keys;
  int count = 0;
  const auto add = [&](std::string_view secret, HandshakeSide sender,
                       const LinkIdentity& link, uint8_t connector,
                       uint8_t acceptor) {
    ++count;
    keys.insert(Hex(DeriveKey(secret, sender, link, NonceOf(connector),
                              NonceOf(acceptor))));
  };
  add(kSecret, HandshakeSide::kConnector, SomeLink(), 1, 9);
  add(kSecret, HandshakeSide::kAcceptor, SomeLink(), 1, 9);
  add("fedcba9876543210", HandshakeSide::kConnector, SomeLink(), 1, 9);
  add(kSecret, HandshakeSide::kConnector, SomeLink(), 2, 9);
  add(kSecret, HandshakeSide::kConnector, SomeLink(), 1, 8);
  const auto with = [&](auto change) {
    LinkIdentity link = SomeLink();
    change(link);
    add(kSecret, HandshakeSide::kConnector, link, 1, 9);
  };
  with([](LinkIdentity& link) { ++link.job; });
  with([](LinkIdentity& link) { ++link.generation; });
  with([](LinkIdentity& link) { ++link.from_rank; });
  with([](LinkIdentity& link) { ++link.to_rank; });
  with([](LinkIdentity& link) { ++link.stripe; });
  with([](LinkIdentity& link) { link.role = LinkRole::kReplica; });
  EXPECT_EQ(keys.size(), static_cast<size_t>(count));
}

TEST(HandshakeTest, JobHashIsTheStartOfSha256) {
  // SHA-256("abc") begins ba7816bf 8f01cfea (FIPS 180-2, appendix B.1).
  EXPECT_EQ(JobHash("abc"), 0xeacf018fbf1678baULL);
  EXPECT_NE(JobHash("gpt-1"), JobHash("gpt-2"));
}

TEST(HandshakeTest, NoncesDiffer) { EXPECT_NE(*NewNonce(), *NewNonce()); }

}  // namespace
}  // namespace ringmaster
