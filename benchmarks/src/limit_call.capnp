# The messages of the limit: what a call and its reply are when they are Cap'n Proto and nothing more.
@0xd3a4c1e6b80f5721;
struct Call { id @0 :UInt64; actor @1 :UInt64; method @2 :UInt64; number @3 :UInt64; deadline @4 :Int64; arguments @5 :Data; trace @6 :Data; }
struct Reply { id @0 :UInt64; status @1 :UInt16; value @2 :Data; }
