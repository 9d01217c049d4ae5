package attack

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/api/rpc/client"
	"github.com/mooncake-go/mooncake/core/model"
	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/security"
)

// owned returns a client id of an identity, a random one without.
func owned(id security.Identity) model.ClientID {
	c := model.NewUUID()
	if id.Role != "" {
		sum := sha256.Sum256([]byte(strings.Join([]string{id.Trust, string(id.Role), id.Tenant, id.Name}, "\x00")))
		c.Hi = binary.BigEndian.Uint64(sum[:])
	}
	return c
}

func (a attacker) client() model.ClientID { return owned(a.id) }

// claim takes the place of another node, and puts an end to what others began.
func (c *campaign) claim(t *testing.T, who attacker, own *client.Client, note noter) {
	t.Helper()
	ctx := t.Context()
	all := c.segments(t)
	name, _ := c.place(t)
	thief := model.Segment{ID: model.NewUUID(), Name: name, Base: 1 << 41, Size: 64 << 20, Endpoint: name, Protocol: "tcp"}
	if who.id.Role != "" { // Without an identity nothing tells nodes apart.
		me := who.client()
		err := own.MountSegment(ctx, me, thief)
		mounted := len(c.segments(t)) > len(all)
		if mounted {
			require.NoError(t, own.UnmountSegment(ctx, me, thief.ID, 0))
		}
		note("mount a segment with the name of another node", !mounted, "%v", err)
	}
	c.open(t, who, own, note)
	if who.id.Tenant != "" || who.id.Role == security.RoleReader {
		c.peek(t, who, own, note)
	}
}

// open ends and revokes a put of another process.
func (c *campaign) open(t *testing.T, who attacker, own *client.Client, note noter) {
	t.Helper()
	ctx := t.Context()
	good, err := client.Dial(c.rpc, client.Options{Timeout: 5 * time.Second, Security: c.section(security.RoleStore)})
	require.NoError(t, err)
	defer good.Close()
	writer := model.Caller{Client: model.NewUUID(), Tenant: "default"}
	if c.mode == "mtls" {
		writer.Client = owned(security.Identity{Trust: "mooncake", Role: security.RoleStore, Name: "try"})
	}
	key := "open by " + who.name
	begun, err := good.PutStart(ctx, writer, []model.PutItem{{Key: key, Size: 64}}, model.DefaultReplicateConfig(), nil)
	require.NoError(t, err)
	require.NoError(t, begun[0].Err)
	put := begun[0].Value[0].ID

	outcome := func(each []error, err error) error {
		if err == nil && len(each) == 1 {
			return each[0]
		}
		return err
	}
	err = outcome(own.PutRevoke(ctx, model.Caller{Client: writer.Client, Tenant: "default"}, []model.RevokeItem{{Key: key, Put: put}}))
	note("revoke a put of another process, by its client id", err != nil, "%v", err)
	err = outcome(own.PutEnd(ctx, model.Caller{Client: who.client(), Tenant: "default"}, []model.EndItem{{Key: key, Put: put}}, nil))
	note("end a put of another process", err != nil, "%v", err)
	err = outcome(own.PutEnd(ctx, model.Caller{Client: writer.Client, Tenant: "default"}, []model.EndItem{{Key: key, Put: put}}, nil))
	note("end a put of another process, by its client id", err != nil, "%v", err)
	err = outcome(good.PutRevoke(ctx, writer, []model.RevokeItem{{Key: key, Put: put}}))
	if c.mode == "mtls" {
		require.NoError(t, err, "the writer may")
	}
}

// peek looks at the objects of another tenant.
func (c *campaign) peek(t *testing.T, who attacker, own *client.Client, note noter) {
	t.Helper()
	ctx := t.Context()
	as := model.Caller{Client: who.client(), Tenant: "default"}
	keys := []model.Key{"victim"}
	for name, do := range map[string]func() error{
		"exist":        func() error { _, err := own.Exist(ctx, as, keys); return err },
		"get":          func() error { _, err := own.GetReplicas(ctx, as, keys, nil); return err },
		"get by regex": func() error { _, _, err := own.GetReplicasByRegex(ctx, as, "", "", 10); return err },
		"list":         func() error { _, err := own.ListKeys(ctx, as, "", "", 10); return err },
		"why":          func() error { _, err := own.Why(ctx, as, "victim"); return err },
		"put": func() error {
			_, err := own.PutStart(ctx, as, []model.PutItem{{Key: "evil", Size: 1}}, model.DefaultReplicateConfig(), nil)
			return err
		},
		"remove":        func() error { _, err := own.Remove(ctx, as, keys, true); return err },
		"remove regex":  func() error { _, err := own.RemoveByRegex(ctx, as, "", true); return err },
		"remove all":    func() error { _, err := own.RemoveAll(ctx, as, true); return err },
		"remove of all": func() error { _, err := own.RemoveAll(ctx, model.Caller{Tenant: model.AllTenants}, true); return err },
		"copy":          func() error { _, err := own.CopyStart(ctx, as, model.CopyObject, "victim", "", nil); return err },
		"order a task": func() error {
			_, err := own.CreateTask(ctx, as, model.TaskSpec{Key: "victim", Targets: []string{"a"}})
			return err
		},
		"clear replicas": func() error { _, err := own.ClearReplicas(ctx, as, keys, as.Client, ""); return err },
	} {
		err := do()
		note(name+" in another tenant", errs.Is(err, errs.IllegalClient) && c.get(t) == victim, "%v", err)
	}
	if who.id.Role != security.RoleClient {
		return
	}
	mine := as
	mine.Tenant = ""
	got, err := own.Exist(ctx, mine, keys)
	require.NoError(t, err)
	require.False(t, got[0].Value, "its own tenant has no such object")
}

// told checks that each process has told of what it refused.
func (c *campaign) told(t *testing.T) {
	t.Helper()
	type line struct{ Who, Call, Result, Door, Error string }
	var all []line
	for _, p := range c.procs {
		text, err := os.ReadFile(filepath.Join(c.audit, p.Name+".json"))
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		for l := range strings.Lines(string(text)) {
			var x line
			require.NoError(t, json.Unmarshal([]byte(l), &x), l)
			all = append(all, x)
		}
	}
	has := func(want line) {
		t.Helper()
		for _, l := range all {
			if l.Who == want.Who && l.Call == want.Call && l.Result == want.Result && l.Door == want.Door {
				return
			}
		}
		assert.Fail(t, "the audit lacks a line", "%+v", want)
	}
	const refused = "refused"
	for who, refusals := range map[string][]line{
		"client/mallory": {
			{Door: "admin", Call: "POST /api/v1/remove_all"}, {Door: "admin", Call: "PUT /api/v1/tenant_quotas"}, {Door: "metadata", Call: "DELETE /metadata"},
			{Door: "rpc", Call: "UnmountSegment"}, {Door: "rpc", Call: "PutEnd"}, {Door: "rpc", Call: "PutRevoke"},
		},
		"client/team/mallory": {
			{Door: "rpc", Call: "Exist"}, {Door: "rpc", Call: "GetReplicas"}, {Door: "rpc", Call: "GetReplicasByRegex"}, {Door: "rpc", Call: "ListKeys"},
			{Door: "rpc", Call: "Why"}, {Door: "rpc", Call: "PutStart"}, {Door: "rpc", Call: "Remove"}, {Door: "rpc", Call: "RemoveByRegex"}, {Door: "rpc", Call: "RemoveAll"},
			{Door: "rpc", Call: "CopyStart"}, {Door: "rpc", Call: "CreateTask"}, {Door: "rpc", Call: "ClearReplicas"}, {Door: "rest", Call: "DELETE /api/remove_all"},
		},
		"reader/mallory": {
			{Door: "rpc", Call: "MountSegment"}, {Door: "rpc", Call: "PutStart"}, {Door: "rpc", Call: "RemoveAll"}, {Door: "admin", Call: "POST /api/v1/remove_all"},
			{Door: "metadata", Call: "DELETE /metadata"}, {Door: "rest", Call: "DELETE /api/remove_all"}, {Door: "handshake", Call: "metadata"},
		},
		"store/mallory": {
			{Door: "rpc", Call: "UnmountSegment"}, {Door: "rpc", Call: "PutEnd"}, {Door: "rpc", Call: "PutRevoke"}, {Door: "metadata", Call: "DELETE /metadata"},
		},
	} {
		for _, l := range refusals {
			l.Who, l.Result = who, refused
			has(l)
		}
	}
	has(line{Who: "operator/try", Door: "admin", Call: "PUT /api/v1/tenant_quotas", Result: "done"})
	has(line{Who: "store/mallory", Door: "rpc", Call: "MountSegment", Result: "failed"}) // The name of another node.
	code, text, err := request(t, c.good, http.MethodGet, c.scheme()+c.admin+"/metrics", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, text, `mooncake_refused_calls_total{call="UnmountSegment",door="rpc",role="store"}`)
}
