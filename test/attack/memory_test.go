package attack

import (
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/model"
	shm "github.com/mooncake-go/mooncake/plugins/transport-shm"
	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// putting is a put that a client has started and not ended.
type putting struct {
	attacker
	m    *client.Client
	self model.Caller
	key  string
	at   model.Part
}

// starts has a client start a put of the bytes of the victim.
func (c *campaign) starts(t *testing.T, who attacker, key string) putting {
	t.Helper()
	m, err := client.Dial(c.rpc, client.Options{Timeout: 5 * time.Second, Security: who.own})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, m.Close()) })
	id, err := m.NewID()
	require.NoError(t, err)
	p := putting{attacker: who, m: m, self: model.Caller{Client: id, Tenant: "default"}, key: key}
	got, err := m.PutStart(t.Context(), p.self, []model.PutItem{{Key: key, Size: uint64(len(victim))}}, model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	require.NoError(t, got[0].Err)
	p.at = got[0].Value[0].Part
	require.NotNil(t, p.at.Permit)
	return p
}

// write writes to where a put is in flight, as a client and with a grant.
func (c *campaign) write(t *testing.T, who attacker, at model.Part, text string, shown *transport.Permit) error {
	t.Helper()
	cfg := tcp.DefaultConfig()
	cfg.Host = "127.0.0.1"
	n, err := tcp.Factory().New(cfg)
	require.NoError(t, err)
	return c.over(t, n, "tcp", who, transport.Op{Kind: transport.Write, Local: []byte(text), Offset: at.Address, Grant: shown}, at.Segment)
}

// inFlight attacks a put of another client while it is in flight, when its range may be written: by that client alone.
func (c *campaign) inFlight(t *testing.T) {
	t.Helper()
	alice, mallory := c.starts(t, c.client(t, "alice-puts"), "in-flight"), c.starts(t, c.client(t, "mallory-puts"), "of-mallory")
	require.NoError(t, c.write(t, alice.attacker, alice.at, victim, alice.at.Permit), "what the master allows")
	wrong := strings.Repeat("!", len(victim))
	for attack, shown := range map[string]*transport.Permit{
		"without a grant": nil, "with the grant for another key": mallory.at.Permit, "with the other client's grant": alice.at.Permit,
	} {
		err := c.write(t, mallory.attacker, alice.at, wrong, shown) // A node does not know the key of a grant for another node: LEASE_EXPIRED.
		c.note("write natively to the put of another client in flight "+attack, errs.Is(err, errs.IllegalClient) || errs.Is(err, errs.LeaseExpired), "%v", err)
	}
	got, err := alice.m.PutEnd(t.Context(), alice.self, []model.EndItem{{Key: alice.key}}, nil)
	require.NoError(t, err)
	require.NoError(t, got[0])
	code, text := c.ask(t, http.MethodGet, c.rest[1], "/api/get/"+alice.key, "")
	require.Equal(t, http.StatusOK, code, text)
	require.Equal(t, victim, text, "and no byte was changed")
	err = c.write(t, alice.attacker, alice.at, wrong, alice.at.Permit)
	c.note("write natively after the end of one's own put", err != nil, "%v", err)
	revoked, err := mallory.m.PutRevoke(t.Context(), mallory.self, []model.RevokeItem{{Key: mallory.key}})
	require.NoError(t, err)
	require.NoError(t, revoked[0])
}

// overSHM attacks the memory of a store that serves transport/shm, which has no grants: processes of other users get none of it.
func (c *campaign) overSHM(t *testing.T) {
	t.Helper()
	c.run(t, security.RoleStore, "shm", "memory is mounted", "store", "--master_server_address", c.rpc, "--metadata_server", "http://"+c.meta+"/metadata",
		"--local_hostname", "127.0.0.1", "--global_segment_size", "16MiB", "--keep", "off", "--transports", "shm,tcp", "--rest_host", "127.0.0.1", "--port", "0")
	found := regexp.MustCompile(`memory is mounted.* name=(\S+)`).FindStringSubmatch(c.procs[len(c.procs)-1].Tail())
	require.NotNil(t, found)
	var base uint64
	var err error
	for _, s := range c.segments(t) {
		if s.Name == found[1] {
			base, err = strconv.ParseUint(s.Base, 0, 64)
			require.NoError(t, err)
		}
	}
	require.NotZero(t, base)
	read := func(own config.Security) error {
		cfg := shm.DefaultConfig()
		if !own.On() {
			cfg.Access = shm.AccessAny // The attacker takes memory of whomever.
		}
		n, err := shm.Factory().New(cfg)
		require.NoError(t, err)
		return c.over(t, n, "shm", attacker{own: own}, transport.Op{Kind: transport.Read, Local: make([]byte, 64), Offset: base}, found[1])
	}
	err = read(c.section(security.RoleClient))
	c.note("read memory over shm as the same user, without a grant", err != nil, "%v", err)
	if os.Geteuid() != 0 {
		t.Log("only root can attack shm as another user")
		return
	}
	runtime.LockOSThread() // The user of this thread is changed, and nothing but the connection is made by it.
	defer runtime.UnlockOSThread()
	become := func(user uintptr) {
		const keep = ^uintptr(0)
		_, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, keep, user, keep)
		require.Zero(t, no)
	}
	become(65534)
	err = read(config.Security{Mode: "off"})
	become(0)
	c.note("read memory over shm as another user", err != nil && strings.Contains(err.Error(), "user"), "%v", err)
}
