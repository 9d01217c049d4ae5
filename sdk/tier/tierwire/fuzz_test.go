package tierwire

import (
	"log/slog"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/sdk/internal/memwire"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
	tierv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/tier/v1"
	"github.com/mooncake-go/mooncake/sdk/tier"
	"github.com/mooncake-go/mooncake/sdk/wire"
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

// FuzzCompletions feeds the host's side: an operation ends once, whatever the plugin says.
func FuzzCompletions(f *testing.F) {
	seed(f,
		&tierv1.OperateResponse{Completions: []*tierv1.Completion{{Number: 1, Status: uint32(tier.OK)}, {Number: 2, Status: uint32(tier.OK), At: &tierv1.Locator{A: 1}}}},
		&tierv1.OperateResponse{Completions: []*tierv1.Completion{{Number: 1, Status: uint32(tier.Quarantined), Error: &pluginv1.Error{Code: -1}}, {Number: 1, Status: uint32(tier.Returned)}}},
		&tierv1.OperateResponse{Completions: []*tierv1.Completion{{Number: 1}}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &tierv1.OperateResponse{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		c := NewClient(nil, wire.ClientOptions{ID: plugin.ID{Kind: plugin.KindTier, Name: "x"}}, Options{})
		defer c.cancel()
		for number, kind := range []tier.Kind{1: tier.Read, 2: tier.Write} {
			if kind != 0 {
				c.flights[uint64(number)] = &flight{id: uint64(number), kind: kind, regions: []uint64{7}}
				c.users[7]++
			}
		}
		_ = c.settle(m.GetCompletions())
		ended := map[uint64]int{}
		for _, d := range c.done {
			if d.Status != tier.Quarantined {
				ended[d.ID]++
			}
		}
		if ended[1] > 1 || ended[2] > 1 || len(ended)+len(c.flights) != 2 || c.users[7] != len(c.flights) {
			t.Fatalf("completions %v, in flight %d, users %d", c.done, len(c.flights), c.users[7])
		}
	})
}

// FuzzFound feeds the host's side: what it accepts are records.
func FuzzFound(f *testing.F) {
	seed(f, &tierv1.ScanResponse{Found: []*tierv1.Found{{Record: &tierv1.Record{Key: []byte("k"), Size: 1}, At: &tierv1.Locator{B: 1}}, {}}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &tierv1.ScanResponse{}
		dst := make([]tier.Found, 3)
		if proto.Unmarshal(raw, m) != nil || decodeFound(m.GetFound(), dst) != nil {
			return
		}
		for _, r := range dst[:len(m.GetFound())] {
			if len(r.Record.Key) == 0 || len(r.Record.Key) > tier.MaxKey || r.Record.Size == 0 || r.At == (tier.Locator{}) {
				t.Fatalf("accepted %+v", r)
			}
		}
	})
}

// FuzzOps feeds the plugin's side: operations are on memory that is mapped.
func FuzzOps(f *testing.F) {
	seed(f, &tierv1.OperateRequest{Ops: []*tierv1.Op{{Number: 1, Kind: 1, Local: []*tierv1.Part{{Region: 1, At: 1 << 63, Length: 1 << 63}}, Limit: -1}}})
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &tierv1.OperateRequest{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		p := newPump(nil, &memwire.Areas{}, nil, slog.New(slog.DiscardHandler))
		for _, o := range m.GetOps() {
			got, err := p.decode(o, time.Now())
			if err == nil && len(got.Local) > 0 {
				t.Fatal("memory of no region")
			}
		}
	})
}
