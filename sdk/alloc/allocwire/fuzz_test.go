package allocwire

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/sdk/alloc"
	allocv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/alloc/v1"
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

func FuzzAllocRequest(f *testing.F) {
	seed(f, encodeItems(requests(3)), &allocv1.AllocRequest{Items: []*allocv1.AllocItem{{}, {Size: 1 << 63}}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &allocv1.AllocRequest{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		s := &server{object: func() (alloc.Allocator, error) { return newBump(), nil }}
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
		results, err := decodeResults("alloc/x: alloc", m, asked)
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
