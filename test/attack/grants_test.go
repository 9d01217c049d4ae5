package attack

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// client returns a client with an identity of its own.
func (c *campaign) client(t *testing.T, name string) attacker {
	t.Helper()
	id := security.Identity{Trust: "mooncake", Role: security.RoleClient, Name: name}
	f, err := c.dir.Issue(name, nil, time.Hour, time.Now(), id)
	require.NoError(t, err)
	own := c.section(security.RoleClient)
	own.Cert, own.Key = f.Cert, f.Key
	return attacker{name, c.with(t, f.Cert, f.Key), own, id}
}

// allowed returns what the master lets a process do with the object.
func (c *campaign) allowed(t *testing.T, own config.Security) *transport.Permit {
	t.Helper()
	m, err := client.Dial(c.rpc, client.Options{Timeout: 5 * time.Second, Security: own})
	require.NoError(t, err)
	defer m.Close()
	got, err := m.GetReplicas(t.Context(), model.Caller{Tenant: "default"}, []model.Key{"victim"}, nil)
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	require.NotNil(t, got[0].Value.Replicas[0].Permit, "the master allows a client with an identity to read")
	return got[0].Value.Replicas[0].Permit
}

// grants attacks the data port with grants of the master.
func (c *campaign) grants(t *testing.T) {
	t.Helper()
	if c.mode != "mtls" {
		return
	}
	c.restore(t)
	alice, mallory := c.client(t, "alice"), c.client(t, "mallory")
	read := func(who attacker, size int, behind uint64, shown *transport.Permit) ([]byte, error) {
		got := make([]byte, size)
		return got, c.native(t, who, transport.Read, got, behind, shown)
	}
	own := c.allowed(t, alice.own)
	got, err := read(alice, len(victim), 0, own)
	require.NoError(t, err, "what the master allows is served")
	require.Equal(t, victim, string(got))
	got, err = read(alice, len(victim)-5, 5, own)
	require.NoError(t, err, "a part of it, too")
	require.Equal(t, victim[5:], string(got))

	refused := func(attack string, code errs.Code, do func() ([]byte, error)) {
		got, err := do()
		untouched := err != nil && string(got) == string(make([]byte, len(got)))
		c.note(attack, untouched, "%v", err)
		require.True(t, errs.Is(err, code), "%s: %v", attack, err)
	}
	refused("read natively without a grant", errs.IllegalClient, func() ([]byte, error) { return read(alice, len(victim), 0, nil) })
	refused("read natively with another client's grant", errs.IllegalClient, func() ([]byte, error) { return read(mallory, len(victim), 0, own) })
	refused("read natively one byte more than the grant", errs.IllegalClient, func() ([]byte, error) { return read(alice, len(victim)+1, 0, own) })
	refused("read natively behind the grant", errs.IllegalClient, func() ([]byte, error) { return read(alice, 1, uint64(len(victim)), own) })
	refused("read natively with a forged grant", errs.IllegalClient, func() ([]byte, error) {
		forged := *own.Grant()
		forged[16]++ // One more byte.
		return read(alice, len(victim)+1, 0, transport.PermitOf(&forged))
	})
	err = c.native(t, alice, transport.Write, []byte(victim), 0, own)
	c.note("write natively with a grant to read", errs.Is(err, errs.IllegalClient) && c.get(t) == victim, "%v", err)
	require.Eventually(t, func() bool {
		_, err := read(alice, len(victim), 0, own)
		return errs.Is(err, errs.LeaseExpired)
	}, time.Minute, 100*time.Millisecond, "a grant ends with the lease")
	refused("read natively after the grant has ended", errs.LeaseExpired, func() ([]byte, error) { return read(alice, len(victim), 0, own) })
	got, err = read(alice, len(victim), 0, c.allowed(t, alice.own))
	require.NoError(t, err, "the master allows it again")
	require.Equal(t, victim, string(got))
}
