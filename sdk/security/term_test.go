package security_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/security/securitytest"
)

// shows is what a peer with the certificate in f shows.
func shows(t *testing.T, f security.Files) tls.ConnectionState {
	t.Helper()
	text, err := os.ReadFile(f.Cert)
	require.NoError(t, err)
	var s tls.ConnectionState
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		require.NoError(t, err)
		s.PeerCertificates = append(s.PeerCertificates, c)
	}
	return s
}

// life is a connection whose life is bounded.
type life struct {
	term       *security.Term
	left, over atomic.Int64 // when, in nanoseconds since the connection began; 0 for not yet
	why        atomic.Value
}

func begin(k *security.Keeper, s tls.ConnectionState, dialled bool) *life {
	l, began := &life{}, time.Now()
	l.term = k.Watch(k.Present(), s, dialled, func(why error) {
		l.why.Store(why)
		l.over.Store(int64(time.Since(began)))
	})
	l.term.OnLeave(func() { l.left.Store(int64(time.Since(began))) })
	return l
}

func (l *life) at(x *atomic.Int64) time.Duration { return time.Duration(x.Load()) }

// TestConnectionsEndWithTheirCertificates: a connection is left before the first certificate of either side ends, and
// closed then.
func TestConnectionsEndWithTheirCertificates(t *testing.T) {
	const brief = 100 * time.Second
	for name, c := range map[string]struct {
		own, peer   time.Duration
		between     bool // the certificate between that of the peer and the authority is the one that ends
		dialled     bool
		least, most time.Duration // when it is left
		whose       string
	}{
		"the peer's, dialled":          {own: time.Hour, peer: brief, dialled: true, least: 70 * time.Second, most: 80 * time.Second, whose: "the peer"},
		"the peer's, accepted":         {own: time.Hour, peer: brief, least: 90 * time.Second, most: 90 * time.Second, whose: "the peer"},
		"the own, dialled":             {own: brief, peer: time.Hour, dialled: true, least: 70 * time.Second, most: 80 * time.Second, whose: "this process"},
		"the own, accepted":            {own: brief, peer: time.Hour, least: 90 * time.Second, most: 90 * time.Second, whose: "this process"},
		"the own, without the peer's":  {own: brief, least: 90 * time.Second, most: 90 * time.Second, whose: "this process"},
		"one between, of the peer":     {own: time.Hour, peer: time.Hour, between: true, dialled: true, least: 70 * time.Second, most: 80 * time.Second, whose: "the peer"},
		"one between, of the acceptor": {own: time.Hour, peer: time.Hour, between: true, least: 90 * time.Second, most: 90 * time.Second, whose: "the peer"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := securitytest.NewAuthority(t)
				issuer := a
				if c.between {
					issuer = a.BetweenUntil(t, time.Now().Add(brief))
				}
				k := a.Keeper(t, security.ModeMTLS, securitytest.Certificate{Role: security.RoleStore, Name: "a", Ends: time.Now().Add(c.own)})
				var s tls.ConnectionState
				if c.peer > 0 {
					s = shows(t, issuer.Issue(t, securitytest.Certificate{Role: security.RoleClient, Name: "b", Ends: time.Now().Add(c.peer)}))
				}
				l, gone := begin(k, s, c.dialled), begin(k, s, c.dialled)
				gone.term.Done()
				time.Sleep(brief - time.Nanosecond)
				synctest.Wait()
				assert.True(t, l.term.Leaving())
				assert.GreaterOrEqual(t, l.at(&l.left), c.least)
				assert.LessOrEqual(t, l.at(&l.left), c.most+time.Second)
				assert.Zero(t, l.at(&l.over))
				late := false
				l.term.OnLeave(func() { late = true })
				assert.True(t, late)
				time.Sleep(time.Second) // Certificates count in seconds.
				synctest.Wait()
				assert.LessOrEqual(t, l.at(&l.over), brief)
				why, _ := l.why.Load().(error)
				require.ErrorContains(t, why, "the certificate of "+c.whose)
				time.Sleep(time.Hour)
				synctest.Wait()
				assert.Zero(t, gone.at(&gone.left)+gone.at(&gone.over), "a connection that is closed is forgotten")
			})
		})
	}
}

// TestConnectionsFollowTheFiles: the side that dialled leaves a connection when its own certificate is replaced; both
// sides end one that the authorities do not cover any more.
func TestConnectionsFollowTheFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, next := securitytest.NewAuthority(t), securitytest.NewAuthority(t)
		mine := securitytest.Certificate{Role: security.RoleStore, Name: "a", Ends: time.Now().Add(20 * time.Hour)}
		f := old.Issue(t, mine)
		k, err := security.Open(security.Settings{Mode: security.ModeMTLS, Files: f, Every: 10 * time.Second, Log: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		theirs := securitytest.Certificate{Role: security.RoleMaster, Name: "b", Ends: time.Now().Add(20 * time.Hour)}
		byOld, byNext := shows(t, old.Issue(t, theirs)), shows(t, next.Issue(t, theirs))
		out, in := begin(k, byOld, true), begin(k, byOld, false)
		settle := func() {
			require.True(t, k.Look())
			synctest.Wait()
		}

		trust(t, f, old, next)
		settle()
		renewed, kept := begin(k, byNext, true), begin(k, byNext, false)
		assert.False(t, out.term.Leaving() || in.term.Leaving(), "both authorities are known")

		next.Replace(t, f, mine)
		settle()
		assert.True(t, out.term.Leaving() && renewed.term.Leaving(), "this side has another certificate")
		assert.False(t, in.term.Leaving() || kept.term.Leaving())
		renewed = begin(k, byNext, true)

		trust(t, f, next)
		settle()
		assert.True(t, in.term.Leaving(), "the authority is gone")
		assert.False(t, kept.term.Leaving() || renewed.term.Leaving())
		assert.Zero(t, in.at(&in.over), "what is in flight has some time")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		assert.Equal(t, 10*time.Second, in.at(&in.over))
		assert.Equal(t, 10*time.Second, out.at(&out.over))
		why, _ := in.why.Load().(error)
		require.ErrorContains(t, why, "the authorities of security.ca were replaced")
		for _, l := range []*life{kept, renewed} {
			assert.Zero(t, l.at(&l.over))
			l.term.Done()
		}
	})
}

// trust writes the authorities to the file of f.
func trust(t *testing.T, f security.Files, all ...*securitytest.Authority) {
	t.Helper()
	var text []byte
	for _, a := range all {
		b, err := os.ReadFile(a.Own)
		require.NoError(t, err)
		text = append(text, b...)
	}
	require.NoError(t, os.WriteFile(f.CA, text, 0o600))
}
