package transporttest

import (
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/conformance"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
	"github.com/mooncake-go/mooncake/sdk/transport/grant"
)

// issuer is a master that makes grants for one region, at a node whose clock stands still.
type issuer struct {
	book   *grant.Book
	sealer *grant.Sealer
	number uint32
	by     transport.Subject
}

func (s *suite) issuer(t conformance.T) *issuer {
	i := &issuer{by: s.subject(t)}
	i.book = grant.NewBook(func() time.Duration { return time.Hour })
	i.renew()
	return i
}

// renew makes another key.
func (i *issuer) renew() {
	c := new(grant.Clock)
	c.Hear(time.Hour, time.Hour, time.Hour)
	e := i.book.Add(grant.Role{Clock: c, Lead: true})
	i.sealer, i.number = grant.NewSealer(e.Number, e.Key), e.Number
}

// allow makes a grant that outlasts the check.
func (i *issuer) allow(kind transport.OpKind, from, to int) *transport.Permit {
	return i.seal(grant.Claim{Kind: kind, Offset: uint64(from), Length: uint64(to - from), Until: time.Hour + 10*time.Minute}, i.by)
}

func (i *issuer) seal(c grant.Claim, by transport.Subject) *transport.Permit {
	g := new(transport.Grant)
	i.sealer.Seal(g, c, by)
	return transport.PermitOf(g)
}

// subject is who the transports of the suite are to each other.
func (s *suite) subject(t conformance.T) transport.Subject {
	if s.security.Mode != security.ModeMTLS {
		return transport.Subject{}
	}
	k, err := security.Open(s.security)
	require.NoError(t, err)
	id, err := k.Identity()
	require.NoError(t, err)
	return grant.SubjectOf(id.URI())
}

// granted registers memory for which peers need grants.
func (s *suite) granted(t conformance.T, tr transport.Transport, size int) ([]byte, transport.Key, *issuer) {
	if !s.f.Manifest().Has(transport.CapGrants) {
		t.Skip("the transport does not have the capability " + string(transport.CapGrants))
	}
	mem, i := s.memory(t, size), s.issuer(t)
	r := s.region(1, mem, transport.AccessRemote)
	r.Grants = i.book
	key, err := tr.Register(within(t), r)
	if errs.CodeOf(err) == errs.NotSupported {
		t.Skip("the transport runs in a process of its own, which does not ask for grants")
	}
	require.NoError(t, err)
	return mem, key, i
}

func (s *suite) grants(t conformance.T) {
	const from, to, size = 100_000, 200_000, 3_000_000
	server, client := s.start(t), s.start(t)
	mem, key, master := s.granted(t, server, size)
	p, ids := dial(t, client, server, key)
	buf := s.local(t, client, 1, size)
	op := func(kind transport.OpKind, at, end int, shown *transport.Permit) transport.Op {
		return transport.Op{ID: 1, Kind: kind, Local: buf[at:end], Remote: ids[0], Offset: uint64(at), Grant: shown}
	}
	part := func(kind transport.OpKind) *transport.Permit { return master.allow(kind, from, to) }
	fill(buf, 5)
	must(t, p, op(transport.Write, 0, size, master.allow(transport.Write, 0, size)))
	require.Equal(t, buf, mem, "each part of an operation shows the grant")
	clear(buf)
	must(t, p, op(transport.Read, 0, size, master.allow(transport.Read, 0, size)))
	require.Equal(t, mem, buf)
	must(t, p, op(transport.Read, from+1, to-1, part(transport.Read)))
	must(t, p, op(transport.Write, from, to, part(transport.Write)))
	before := append([]byte(nil), mem...)
	refused := func(name string, code errs.Code, o transport.Op) {
		fill(buf, 7)
		kept := append([]byte(nil), buf...)
		c := fails(t, p, o, errs.ClassPermanent)
		require.Equal(t, code, errs.CodeOf(c.Err), "%s: %v", name, c.Err)
		require.Equal(t, transport.Failed, c.Status, name)
		moved := strings.HasPrefix(name, "partly") // A transport that divides operations carries out the parts that are allowed.
		for _, x := range []struct{ want, got []byte }{{before, mem}, {kept, buf}} {
			require.Equal(t, x.want[:from], x.got[:from], name)
			require.Equal(t, x.want[to:], x.got[to:], name)
			require.True(t, moved || string(x.want[from:to]) == string(x.got[from:to]), "%s: no byte moves", name)
		}
		copy(before[from:to], mem[from:to])
	}
	for _, kind := range []transport.OpKind{transport.Read, transport.Write} {
		other := transport.Read + transport.Write - kind
		refused("no grant", errs.IllegalClient, op(kind, from, to, nil))
		refused("the other direction", errs.IllegalClient, op(kind, from, to, part(other)))
		refused("partly before", errs.IllegalClient, op(kind, from-1, to-1, part(kind)))
		refused("partly behind", errs.IllegalClient, op(kind, from+1, to+1, part(kind)))
		refused("behind", errs.IllegalClient, op(kind, to, to+1, part(kind)))
		stranger := master.by
		stranger[0]++
		refused("another identity", errs.IllegalClient, op(kind, from, to, master.seal(grant.Claim{Kind: kind, Offset: from, Length: to - from, Until: 2 * time.Hour}, stranger)))
		for at := range transport.GrantSize {
			forged := *part(kind).Grant()
			forged[at] ^= 0x10
			c := fails(t, p, op(kind, from, to, transport.PermitOf(&forged)), errs.ClassPermanent)
			require.Contains(t, []errs.Code{errs.IllegalClient, errs.LeaseExpired}, errs.CodeOf(c.Err), "byte %d: %v", at, c.Err)
		}
		require.Equal(t, before, mem, "a forged grant opens nothing")
		late := master.seal(grant.Claim{Kind: kind, Offset: from, Length: to - from, Until: time.Hour}, master.by)
		refused("after its time", errs.LeaseExpired, op(kind, from, to, late))
		late.Renew(part(kind).Grant())
		fill(buf, 7)
		must(t, p, op(kind, from, to, late))
		copy(before, mem)
		old := part(kind)
		number := master.number
		master.renew()
		must(t, p, op(kind, from, to, old))
		copy(before, mem)
		// The peer may run in another process, which hears of it soon.
		soon := func(o transport.Op, status transport.Status, says string) {
			require.Eventually(t, func() bool { return do(t, p, o)[1].Status == status }, conformance.Patience(t), time.Millisecond, says)
			copy(before, mem)
		}
		soon(op(kind, from, to, part(kind)), transport.OK, "a grant of the new master counts")
		master.book.Close(time.Hour, time.Hour, func(e *grant.Entry) bool { return e.Number == number })
		soon(op(kind, from, to, old), transport.Failed, "one of the master before does not")
		refused("of a master that was deposed", errs.LeaseExpired, op(kind, from, to, old))
		must(t, p, op(kind, from, to, part(kind)))
		copy(before, mem)
	}
}
