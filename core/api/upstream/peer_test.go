package upstream

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/core/api/upstream/calls"
)

// at is an address of this machine.
func at(host byte, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, host}), port)
}

func set(of ...calls.Version) (s calls.Versions) {
	for _, v := range of {
		s |= calls.Only(v)
	}
	return s
}

// guess has a peer answer a request of some versions, with what has the shapes of a descriptor.
func guess(p *Peer, request calls.Versions, now time.Time) calls.Version {
	p.asked()
	v := p.Narrow(request, calls.GetReplicaList)
	p.answered(calls.GetReplicaList.Readers, now)
	return v
}

func TestRequestsNarrowTheVersion(t *testing.T) {
	all := newPeers()
	p := all.enter(at(1, 1))
	require.Equal(t, at(1, 1), p.Remote())
	require.Equal(t, calls.V13, p.Version())
	require.Equal(t, calls.V11, p.Narrow(set(calls.V9, calls.V10, calls.V11), calls.ExistKey))
	require.Equal(t, calls.V11, p.Narrow(calls.All, calls.ExistKey))
	require.Equal(t, calls.V10, p.Narrow(set(calls.V9, calls.V10), calls.ExistKey))
	require.Equal(t, calls.V10, p.Version())
	require.Equal(t, calls.V10, all.enter(at(1, 2)).Version(), "the next connection from there")
	require.Equal(t, calls.V13, all.enter(at(2, 1)).Version(), "not from elsewhere")

	q := all.enter(at(1, 3))
	require.Equal(t, calls.V13, q.Narrow(set(calls.V12, calls.V13), calls.ExistKey), "another client there: what it says itself counts")
	require.Equal(t, calls.V13, all.enter(at(1, 4)).Version(), "and is newer")
	require.Equal(t, calls.V10, p.Narrow(set(calls.V9, calls.V10, calls.V11), calls.ExistKey), "not for the connection that has said more")
	require.Equal(t, calls.V12, p.Narrow(set(calls.V12), calls.ExistKey), "which is of another client behind a proxy")
}

// TestWrongGuesses: the end of a connection that comes at once after an answer that some of the
// versions cannot read says that the client is one of them.
func TestWrongGuesses(t *testing.T) {
	now := time.Now()
	readers := set(calls.V12, calls.V13)
	for name, c := range map[string]struct {
		end      func(p *Peer)
		corrects bool
	}{
		"the client closes":               {func(p *Peer) { p.left(true, now.Add(time.Millisecond)) }, true},
		"later":                           {func(p *Peer) { p.left(true, now.Add(soon+1)) }, false},
		"it is closed here, or breaks":    {func(p *Peer) { p.left(false, now) }, false},
		"after another request":           {func(p *Peer) { p.asked(); p.left(true, now) }, false},
		"after one that says its version": {func(p *Peer) { guess(p, set(calls.V13), now); p.left(true, now) }, false},
	} {
		all := newPeers()
		p := all.enter(at(1, 1))
		require.Equal(t, calls.V13, guess(p, readers, now), name)
		c.end(p)
		want := calls.V13
		if c.corrects {
			want = calls.V12
		}
		require.Equal(t, want, guess(all.enter(at(1, 2)), readers, now), name)
	}

	all := newPeers() // A client that asks for anything else first is answered with what all can read.
	p := all.enter(at(1, 1))
	p.Narrow(readers, calls.ExistKey)
	p.answered(calls.ExistKey.Readers, now)
	p.left(true, now)
	require.Equal(t, calls.V13, all.enter(at(1, 2)).Version())

	old := set(calls.V9, calls.V10, calls.V11)
	p = all.enter(at(2, 1))
	require.Equal(t, calls.V11, guess(p, old, now))
	p.left(true, now)
	p = all.enter(at(2, 2))
	require.Equal(t, calls.V10, guess(p, old, now))
	p.left(true, now) // None is left: it was the end of a process.
	require.Equal(t, calls.V11, guess(all.enter(at(2, 3)), old, now))
}

// TestRightGuesses: the next request on the connection confirms a guess, for the address as well.
func TestRightGuesses(t *testing.T) {
	now := time.Now()
	all := newPeers()
	p := all.enter(at(1, 1))
	guess(p, set(calls.V12, calls.V13), now)
	guess(p, set(calls.V12, calls.V13), now)
	other := all.enter(at(1, 2))
	guess(other, set(calls.V12), now)
	require.Equal(t, calls.V12, all.enter(at(1, 3)).Version())
	require.Equal(t, calls.V13, p.Version(), "it has shown which it is")
	p.left(true, now)
	require.Equal(t, calls.V12, all.enter(at(1, 4)).Version(), "one version was left, so that no answer was a guess")
}

// TestAClientConnectsAgain: the client that could not read an answer gets another one on its next
// connection, whatever others at its address have shown meanwhile.
func TestAClientConnectsAgain(t *testing.T) {
	now := time.Now()
	all := newPeers()
	old := set(calls.V9, calls.V10, calls.V11)
	shown := func() { // by a client of 0.3.11
		all.enter(at(1, 2)).Narrow(set(calls.V11), calls.ExistKey)
	}
	p := all.enter(at(1, 1))
	require.Equal(t, calls.V11, guess(p, old, now))
	p.left(true, now)
	shown()
	require.Equal(t, calls.V13, guess(all.enter(at(1, 3)), set(calls.V12, calls.V13), now), "that is not it")
	all.enter(at(1, 4)).Narrow(old, calls.ExistKey) // What it gets it can read, whichever it is.
	shown()
	require.Equal(t, calls.V10, guess(all.enter(at(1, 1)), old, now))
	require.Equal(t, calls.V11, guess(all.enter(at(1, 5)), old, now), "once")

	for range 2 * maxAwaited {
		p := all.enter(at(2, 1))
		guess(p, old, now)
		p.left(true, now)
		shown()
	}
	require.LessOrEqual(t, len(all.hosts[at(2, 1).Addr()].awaited), maxAwaited)
}

// TestFewAddressesAreRemembered: those of connections, and maxAddresses others of which there is
// something to remember.
func TestFewAddressesAreRemembered(t *testing.T) {
	all := newPeers()
	address := func(i int) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1)
	}
	stays := all.enter(address(1 << 15))
	stays.Narrow(set(calls.V9), calls.ExistKey)
	all.enter(address(0)).left(true, time.Now())
	require.Len(t, all.hosts, 1, "nothing is known of it")
	for i := range maxAddresses + 10 {
		p := all.enter(address(i))
		p.Narrow(set(calls.V9), calls.ExistKey)
		p.left(true, time.Now())
	}
	require.Len(t, all.hosts, maxAddresses+1)
	require.Equal(t, maxAddresses, all.unused.Len())
	require.Equal(t, calls.V13, all.enter(address(0)).Version(), "forgotten")
	require.Equal(t, calls.V9, all.enter(address(maxAddresses+9)).Version())
	require.Equal(t, calls.V9, all.enter(address(1<<15)).Version())
	mapped := netip.AddrPortFrom(netip.AddrFrom16(address(1<<15).Addr().As16()), 1)
	require.Equal(t, calls.V9, all.enter(mapped).Version(), "the same address")
}

// TestGuessesOfAnyClients: clients of any versions at few addresses ask in any order, end their
// connections when they cannot read an answer, and for no reason. What each of them gets is what its
// requests allow; what it cannot read it gets rarely.
func TestGuessesOfAnyClients(t *testing.T) {
	versions := []calls.Version{calls.V9, calls.V10, calls.V11, calls.V12, calls.V13}
	functions := slices.Clone(calls.Functions)
	rapid.Check(t, func(t *rapid.T) {
		all := newPeers()
		now := time.Now()
		type process struct {
			host    byte
			version calls.Version
			conn    *Peer
			misses  int // in a row
		}
		mixed := rapid.Bool().Draw(t, "mixed")
		exits := rapid.Bool().Draw(t, "exits")
		ofHost := map[byte]calls.Version{}
		missesOf := map[byte]int{}
		var list []*process
		for range rapid.IntRange(1, 6).Draw(t, "processes") {
			p := &process{host: rapid.ByteRange(1, 2).Draw(t, "host"), version: rapid.SampledFrom(versions).Draw(t, "version")}
			if v, known := ofHost[p.host]; known && !mixed {
				p.version = v
			}
			ofHost[p.host] = p.version
			list = append(list, p)
		}
		alone := len(list) == 1
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			p := rapid.SampledFrom(list).Draw(t, "process")
			if p.conn == nil {
				p.conn = all.enter(at(p.host, 1))
			}
			if rapid.IntRange(0, 9).Draw(t, "step") == 0 {
				p.conn.left(exits, now)
				p.conn = nil
				continue
			}
			f := rapid.SampledFrom(functions).Draw(t, "function")
			if !f.Versions().Has(p.version) {
				continue
			}
			request := accepted(f, p.version)
			p.conn.asked()
			v := p.conn.Narrow(request, f)
			if !request.Has(v) {
				t.Fatalf("%s of versions %v is answered as %d", f.Name(), request, v)
			}
			if !p.conn.allowed.Has(p.version) {
				t.Fatalf("a client of version %d is taken for one of %v", p.version, p.conn.allowed)
			}
			p.conn.answered(f.Readers, now)
			if f.Readers(v).Has(p.version) {
				p.misses = 0
				continue
			}
			p.misses++
			missesOf[p.host]++
			p.conn.left(true, now) // It cannot read it.
			p.conn = nil
			if alone && p.misses > 3 {
				t.Fatalf("version %d could not read %d answers in a row", p.version, p.misses)
			}
		}
		for host, n := range missesOf {
			if !mixed && !exits && n > 3 {
				t.Fatalf("version %d could not read %d answers", ofHost[host], n)
			}
		}
		open := map[byte]bool{}
		for _, p := range list {
			if p.conn != nil {
				open[p.host] = true
				p.conn.left(false, now)
			}
		}
		if len(all.hosts) != all.unused.Len() {
			t.Fatalf("%d addresses are known, %d have no connection", len(all.hosts), all.unused.Len())
		}
	})
}

// accepted returns the versions whose request to a function has the shape of that of v.
func accepted(f calls.Function, v calls.Version) calls.Versions {
	if s, ok := shapes[f.Name()]; ok {
		for _, s := range s {
			if s.Has(v) {
				return s & f.Versions()
			}
		}
	}
	return f.Versions()
}

// shapes are the versions whose requests have one shape, of functions where not all of them have.
var shapes = func() map[string][]calls.Versions {
	tenant := []calls.Versions{set(calls.V9, calls.V10, calls.V11), set(calls.V12, calls.V13)}
	each := []calls.Versions{set(calls.V9), set(calls.V10), set(calls.V11), set(calls.V12), set(calls.V13)}
	return map[string][]calls.Versions{
		"ExistKey": tenant, "BatchExistKey": tenant, "GetReplicaList": tenant, "BatchGetReplicaList": tenant, "Remove": tenant,
		"MountSegment": tenant, "ReMountSegment": tenant, "PutStart": each, "BatchPutStart": each,
	}
}()

// TestAWrongGuessOverTheNetwork: a client that cannot read an answer closes its connection; the next
// connection gets an answer that it can read, and keeps it.
func TestAWrongGuessOverTheNetwork(t *testing.T) {
	var h tester
	addr, s := serve(t, &h, Options{})
	readers := []byte{byte(set(calls.V12, calls.V13))}
	first := dial(t, addr)
	require.Equal(t, byte(calls.V13), first.call(1, fnGuess, readers)[0])
	require.NoError(t, first.Close())
	eventually(t, "it is gone", func() bool { return h.conns.Load() == 0 })
	second := dial(t, addr)
	require.Equal(t, byte(calls.V12), second.call(1, fnGuess, readers)[0])
	require.Equal(t, byte(calls.V12), second.call(2, fnGuess, readers)[0])
	require.NoError(t, second.Close())
	eventually(t, "it is gone", func() bool { return h.conns.Load() == 0 })
	require.Equal(t, byte(calls.V12), dial(t, addr).call(1, fnGuess, readers)[0], "it had read the first")

	// A client that dies while it is answered, or after an answer that all can read, says nothing.
	quiet := dial(t, addr)
	quiet.call(1, fnWhole, readers)
	require.NoError(t, quiet.Close())
	require.Equal(t, byte(calls.V12), dial(t, addr).call(1, fnGuess, readers)[0])
	s.protocol.peers.mu.Lock()
	defer s.protocol.peers.mu.Unlock()
	require.Len(t, s.protocol.peers.hosts, 1)
}
