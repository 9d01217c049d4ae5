package transfer_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/internal/testkit/memtransport"
	"github.com/mooncake-go/mooncake/core/memory"
	"github.com/mooncake-go/mooncake/core/metadata"
	"github.com/mooncake-go/mooncake/core/transfer"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/matrix"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// bilingual is a transport that also speaks with nodes of upstream: their descriptors lead
// to a node of the same network.
type bilingual struct {
	*memtransport.Transport
	segment transport.Segment
	accept  func([]byte) ([]byte, error)

	mu     sync.Mutex
	joined []string
	peers  []transport.PeerSegment
	far    *memtransport.Transport // whom descriptors lead to
	keys   []transport.Key
}

func (b *bilingual) Join(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.joined = append(b.joined, name)
}

func (b *bilingual) Segment() transport.Segment { return b.segment }

func (b *bilingual) Translate(p transport.PeerSegment) (transport.Endpoint, []transport.Key, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.peers = append(b.peers, p)
	if p.Protocol != b.segment.Protocol || b.far == nil {
		return transport.Endpoint{}, nil, errs.New(errs.InvalidParams, "bilingual", "not my protocol")
	}
	return b.far.Endpoint(), b.keys, nil
}

func (b *bilingual) Accept(_ context.Context, request []byte) ([]byte, error) {
	if b.accept == nil {
		return nil, errs.New(errs.NotSupported, "bilingual", "nothing to set up")
	}
	return b.accept(request)
}

func withUpstream(i int, to *bilingual) option {
	return func(_ *transfer.Config, d *transfer.Deps) {
		inner, ok := d.Carriers[i].Transport.(*memtransport.Transport)
		if !ok {
			panic("not a memtransport")
		}
		to.Transport = inner
		d.Carriers[i].Transport = to
	}
}

func TestDescriptorForUpstream(t *testing.T) {
	gid := "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01"
	tcp := transport.Segment{Protocol: "tcp", DataPort: 15555, DataVersion: 2, Buffers: []transport.Buffer{{Name: "whatever", Addr: 4096, Length: 10}}}
	rdma := transport.Segment{Protocol: "rdma", ServerName: "10.0.0.1:1", Devices: []transport.Device{{Name: "m0", LID: 3, GID: gid}, {Name: "m2", GID: gid}},
		Buffers: []transport.Buffer{{Name: "cpu:0", Addr: 8192, Length: 20, RKeys: []uint32{1, 2}, LKeys: []uint32{3, 4}}, {Addr: 9000, Length: 1}}}
	topo, err := matrix.Parse([]byte(`{"cpu:0":[["m0"],["m1"]]}`))
	require.NoError(t, err)
	withTopology := func(_ *transfer.Config, d *transfer.Deps) { d.Topology = topo }

	w := newWorld(t, "rdma", "tcp")
	r, c := &bilingual{segment: rdma}, &bilingual{segment: tcp}
	a := w.node("a", []string{"rdma", "tcp"}, 0, withTopology, withUpstream(0, r), withUpstream(1, c))
	d := a.Descriptor()
	a.Descriptor()
	require.Equal(t, []string{"a"}, r.joined, "once")
	require.Equal(t, []string{"a"}, c.joined)
	require.Equal(t, "rdma", d.Protocol, "the first transport decides")
	require.Equal(t, 15555, d.TCPDataPort)
	require.Equal(t, 2, d.TCPProtoVersion)
	require.Equal(t, "10.0.0.1:1", d.RDMAServerName)
	require.Equal(t, []metadata.Device{{Name: "m0", LID: 3, GID: gid}, {Name: "m2", GID: gid}}, d.Devices)
	require.Equal(t, []metadata.Buffer{{Name: "cpu:0", Addr: 8192, Length: 20, RKeys: []uint32{1, 2}, LKeys: []uint32{3, 4}}, {Name: "*", Addr: 9000, Length: 1}}, d.Buffers)
	require.JSONEq(t, `{"cpu:0":[["m0"],["m2"]]}`, string(d.Matrix), "exactly the devices")
	_, err = metadata.EncodeDescriptor(d)
	require.NoError(t, err, "the codec takes it")

	plain := w.node("b", []string{"rdma", "tcp"}, 0, withUpstream(0, &bilingual{segment: rdma}))
	require.JSONEq(t, `{"*":[["m0","m2"],[]]}`, string(plain.Descriptor().Matrix), "without a topology all devices are as good")
	only := w.node("c", []string{"tcp"}, 0, withUpstream(0, &bilingual{segment: tcp}))
	d = only.Descriptor()
	require.Equal(t, "tcp", d.Protocol)
	require.Equal(t, []metadata.Buffer{{Name: "c", Addr: 4096, Length: 10}}, d.Buffers, "buffers are named after the node")
	require.Nil(t, d.Matrix)
	old := w.node("d", []string{"tcp"}, 100).Descriptor()
	require.Equal(t, "tcp", old.Protocol)
	require.Equal(t, 1, old.TCPProtoVersion)
	require.Len(t, old.Buffers, 1)
}

// TestNodeOfUpstream: a descriptor without our side key is reached by absolute address,
// through whichever transport understands it.
func TestNodeOfUpstream(t *testing.T) {
	w := newWorld(t, "rdma", "tcp")
	net := &handshakes{nodes: map[string]*node{}}
	far := w.nets["tcp"].New("far")
	mem := make([]byte, 10_000)
	key, err := far.Register(t.Context(), transport.Region{ID: 1, Mem: mem, FD: -1, Access: transport.AccessRemote})
	require.NoError(t, err)
	base := memory.AddrOf(mem)
	r := &bilingual{segment: transport.Segment{Protocol: "rdma"}}
	c := &bilingual{segment: transport.Segment{Protocol: "tcp"}, far: far, keys: []transport.Key{nil, key}}
	own := func(_ *transfer.Config, d *transfer.Deps) { d.Directory = daemons{directory{w, "a"}, net} }
	a := w.node("a", []string{"rdma", "tcp"}, 0, own, withUpstream(0, r), withUpstream(1, c))
	w.entries["far"] = &metadata.Descriptor{Name: "far", Protocol: "tcp", TCPDataPort: 16000, TCPProtoVersion: 2,
		Buffers: []metadata.Buffer{{Name: "far", Addr: 1, Length: 2}, {Name: "far", Addr: base, Length: uint64(len(mem))}}}
	net.nodes["far"] = a // Its daemon has an address.

	at := &node{name: "far", base: base}
	require.NoError(t, a.move(transport.Write, at, 100, pattern(5000, 1)))
	require.Equal(t, pattern(5000, 1), mem[100:5100])
	got := make([]byte, 5000)
	require.NoError(t, a.move(transport.Read, at, 100, got))
	require.Equal(t, pattern(5000, 1), got)
	require.Empty(t, r.peers, "another protocol is not asked")
	require.Len(t, c.peers, 1)
	p := c.peers[0]
	require.Equal(t, "far", p.Name)
	require.Equal(t, "host-of-far", p.Host)
	require.Equal(t, 15001, p.Port)
	require.Equal(t, 16000, p.DataPort)
	require.Equal(t, 2, p.DataVersion)
	require.Len(t, p.Buffers, 2)
	require.Equal(t, []string{"a"}, c.joined)
	r0 := a.Transfer(t.Context(), []transfer.Request{{Kind: transport.Read, Local: got[:1], Peer: "far", Addr: 1}})[0]
	require.True(t, errs.Is(r0.Err, errs.InvalidReplica), "a buffer without a key: %v", r0.Err)

	// A node of ours is reached by its side key, though its descriptor says the same.
	ours := w.node("ours", []string{"tcp"}, 4096)
	w.entries["ours"].Protocol = "tcp"
	require.NoError(t, a.move(transport.Write, ours, 0, pattern(10, 1)))
	require.Equal(t, pattern(10, 1), ours.mem[:10])
	require.Len(t, c.peers, 2, "asked anew for the buffer that was not known")

	w.entries["other"] = &metadata.Descriptor{Name: "other", Protocol: "nvlink"}
	at.name = "other"
	require.ErrorContains(t, a.move(transport.Read, at, 0, got), "no transport that this process has")
	c.far = nil
	w.entries["odd"] = &metadata.Descriptor{Name: "odd", Protocol: "tcp"}
	at.name = "odd"
	require.ErrorContains(t, a.move(transport.Read, at, 0, got), "not my protocol")
	require.Equal(t, "odd", c.peers[len(c.peers)-1].Host, "the name, where the daemon is not known")
	require.Zero(t, c.peers[len(c.peers)-1].Port)
}

func TestHandleConnection(t *testing.T) {
	w := newWorld(t, "rdma", "tcp")
	c, r := &bilingual{segment: transport.Segment{Protocol: "tcp"}}, &bilingual{segment: transport.Segment{Protocol: "rdma"}}
	a := w.node("a", []string{"tcp", "rdma"}, 0, withUpstream(0, c), withUpstream(1, r))
	_, err := a.HandleConnection(t.Context(), []byte(`{}`))
	require.True(t, errs.Is(err, errs.NotSupported), "%v", err)
	r.accept = func(q []byte) ([]byte, error) {
		if !json.Valid(q) {
			return nil, errs.New(errs.InvalidParams, "bilingual", "no JSON")
		}
		return []byte(`{"reply":1}`), nil
	}
	answer, err := a.HandleConnection(t.Context(), []byte(`{}`))
	require.NoError(t, err)
	require.JSONEq(t, `{"reply":1}`, string(answer))
	require.Equal(t, []string{"a"}, r.joined)
	_, err = a.HandleConnection(t.Context(), []byte(`{`))
	require.True(t, errs.Is(err, errs.InvalidParams), "%v", err)
}

// TestHandleConnectionWithoutAnAddress: older nodes leave the address of their device to their descriptor.
func TestHandleConnectionWithoutAnAddress(t *testing.T) {
	w := newWorld(t, "rdma")
	r := &bilingual{segment: transport.Segment{Protocol: "rdma"}}
	a := w.node("a", []string{"rdma"}, 0, withUpstream(0, r))
	gid := "00:00:00:00:00:00:00:00:00:00:ff:ff:0a:00:00:01"
	w.entries["10.0.0.1:7"] = &metadata.Descriptor{Name: "10.0.0.1:7", Protocol: "rdma", Devices: []metadata.Device{{Name: "m0", GID: "x"}, {Name: "m1", LID: 3, GID: gid}}}
	var got string
	r.accept = func(q []byte) ([]byte, error) { got = string(q); return []byte(`{}`), nil }
	for request, want := range map[string]string{
		`{"local_nic_path":"10.0.0.1:7@m1","qp_num":[18446744073709551615]}`: `{"local_nic_path":"10.0.0.1:7@m1","qp_num":[18446744073709551615],"local_lid":3,"local_gid":"` + gid + `"}`,
		`{"local_nic_path":"10.0.0.1:7@m1","local_gid":"","local_lid":0}`:    `{"local_nic_path":"10.0.0.1:7@m1","local_lid":3,"local_gid":"` + gid + `"}`,
		`{"local_nic_path":"10.0.0.1:7@m1","local_gid":"its own"}`:           `{"local_nic_path":"10.0.0.1:7@m1","local_gid":"its own"}`,
		`{"local_nic_path":"10.0.0.1:7@m2"}`:                                 `{"local_nic_path":"10.0.0.1:7@m2"}`,
		`{"local_nic_path":"nobody@m1"}`:                                     `{"local_nic_path":"nobody@m1"}`,
		`{"local_nic_path":"m1"}`:                                            `{"local_nic_path":"m1"}`,
		`{"local_nic_path":["10.0.0.1:7@m1"],"local_gid":null}`:              `{"local_nic_path":["10.0.0.1:7@m1"],"local_gid":null}`,
	} {
		_, err := a.HandleConnection(t.Context(), []byte(request))
		require.NoError(t, err)
		require.JSONEq(t, want, got)
	}
	require.Equal(t, 3, w.lookups["10.0.0.1:7"], "not where the request has one")
}
