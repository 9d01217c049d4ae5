package evictwire

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/sdk/evict"
	evictv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/evict/v1"
)

func seed(f *testing.F, ms ...proto.Message) {
	for _, m := range ms {
		raw, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
}

// FuzzRecord sends anything to the server's side: it is refused whole or applied whole.
func FuzzRecord(f *testing.F) {
	seed(f, encodeEvents(inserts(3)), encodeEvents(nil), &evictv1.RecordRequest{Ops: []byte{1, 9}, Ids: []uint64{1}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &evictv1.RecordRequest{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		p := &fifo{}
		s := &server{object: func() (evict.Policy, error) { return p, nil }}
		_, err := s.Record(t.Context(), m)
		want := len(m.GetOps())
		if err != nil {
			want = 0
		}
		if p.events != want {
			t.Fatalf("%d of %d events applied, error %v", p.events, len(m.GetOps()), err)
		}
	})
}

func FuzzResolve(f *testing.F) {
	seed(f, encodeVerdicts([]evict.Verdict{{ID: 1, Evicted: true}, {ID: 2}}), &evictv1.ResolveRequest{Ids: []uint64{1}, Evicted: []byte{7}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &evictv1.ResolveRequest{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		verdicts, err := decodeVerdicts(m)
		if err == nil && !proto.Equal(encodeVerdicts(verdicts), &evictv1.ResolveRequest{Ids: m.GetIds(), Evicted: m.GetEvicted()}) {
			t.Fatalf("%v became %v", m, verdicts)
		}
	})
}

// FuzzProposal feeds the client's side: never more than was asked for.
func FuzzProposal(f *testing.F) {
	seed(f, encodeCandidates([]evict.Candidate{{ID: 1, Size: 2}}), &evictv1.ProposeResponse{Ids: []uint64{1, 2}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &evictv1.ProposeResponse{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		const limit = 3
		got, err := appendCandidates(nil, m, limit)
		if len(got) > limit || (err != nil && len(got) > 0) {
			t.Fatalf("got %d candidates, error %v", len(got), err)
		}
	})
}
