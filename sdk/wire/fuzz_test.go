package wire

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	"github.com/mooncake-go/mooncake/sdk/evict"
	allocv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/alloc/v1"
	evictv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/evict/v1"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
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
		s := &evictServer{lookup: func() (evict.Policy, error) { return p, nil }}
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

func FuzzAllocRequest(f *testing.F) {
	seed(f, encodeItems(requests(3)), &allocv1.AllocRequest{Items: []*allocv1.AllocItem{{}, {Size: 1 << 63}}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &allocv1.AllocRequest{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		s := &allocServer{lookup: func() (alloc.Allocator, error) { return newBump(), nil }}
		r, err := s.Alloc(t.Context(), m)
		if err == nil && len(r.GetResults()) != len(m.GetItems()) {
			t.Fatalf("%d results for %d items", len(r.GetResults()), len(m.GetItems()))
		}
	})
}

// FuzzAllocResponse feeds the client's side: what it accepts fits what was asked for.
func FuzzAllocResponse(f *testing.F) {
	asked := requests(3)
	ok := &allocv1.AllocResponse{Results: []*allocv1.AllocResult{
		{Extent: &allocv1.Extent{Space: 3, Size: 1}}, {Error: &pluginv1.Error{Code: -200}}, {Extent: &allocv1.Extent{Space: 4, Offset: 8, Size: 3}},
	}}
	seed(f, ok, &allocv1.AllocResponse{Results: make([]*allocv1.AllocResult, 0)})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &allocv1.AllocResponse{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		results, err := decodeResults(m, asked)
		if err != nil {
			return
		}
		for i, r := range results {
			if r.Err == nil && (r.Extent.Size != asked[i].Size || r.Extent.Offset%8 != 0 || (r.Extent.Space != 3 && r.Extent.Space != 4)) {
				t.Fatalf("accepted %+v for %+v", r.Extent, asked[i])
			}
		}
	})
}

func FuzzItemErrors(f *testing.F) {
	seed(f, &allocv1.FreeResponse{Errors: []*pluginv1.Error{{}, {Code: -700, Class: 4}}}, &allocv1.FreeResponse{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &allocv1.FreeResponse{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		items, err := decodeErrors("free", m.GetErrors(), 2)
		if err == nil && items != nil && len(items) != 2 {
			t.Fatalf("%d errors for 2 extents", len(items))
		}
	})
}
