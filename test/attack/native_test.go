package attack

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tcp "github.com/mooncake-go/mooncake/plugins/transport-tcp"
	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/security"
	"github.com/mooncake-go/mooncake/sdk/transport"
)

// host is that of the attacker's transport.
type host struct{ settings security.Settings }

func (host) Logger() *slog.Logger          { return slog.New(slog.DiscardHandler) }
func (host) Report(plugin.Health)          {}
func (h host) Security() security.Settings { return h.settings }

// native reads or writes the object over transport/tcp, or what is behind it, with the descriptor that its node published, which the
// attacker knows, and with a grant.
func (c *campaign) native(t *testing.T, who attacker, kind transport.OpKind, local []byte, behind uint64, shown *transport.Permit) error {
	t.Helper()
	name, addr := c.place(t)
	cfg := tcp.DefaultConfig()
	cfg.Host = "127.0.0.1"
	n, err := tcp.Factory().New(cfg)
	require.NoError(t, err)
	return c.over(t, n, "tcp", who, transport.Op{Kind: kind, Local: local, Offset: addr + behind, Grant: shown}, name)
}

// over makes an operation on an address of a segment, over a transport of the attacker's.
func (c *campaign) over(t *testing.T, n transport.Transport, over string, who attacker, op transport.Op, name string) error {
	t.Helper()
	ctx := t.Context()
	var d struct {
		Ours struct {
			Transports []struct {
				Name        string
				Blob        []byte
				Incarnation uint64
				Regions     []struct {
					Addr uint64
					Key  []byte
				}
			}
		} `json:"x_mooncake_go"`
	}
	text := c.descriptor(t, name)
	require.NoError(t, json.Unmarshal([]byte(text), &d), text)
	require.NotEmpty(t, d.Ours.Transports, text)
	at := d.Ours.Transports[0]
	for _, known := range d.Ours.Transports {
		if known.Name == over {
			at = known
		}
	}
	if err := n.Start(ctx, host{who.own.Settings()}); err != nil {
		return err
	}
	defer func() { require.NoError(t, n.Stop(ctx)) }()
	region := at.Regions[0]
	for _, r := range at.Regions {
		if r.Addr <= op.Offset && (region.Addr > op.Offset || r.Addr > region.Addr) {
			region = r // The one that has the object.
		}
	}
	path, err := n.Dial(ctx, transport.Endpoint{Blob: at.Blob, Incarnation: at.Incarnation})
	if err != nil {
		return err
	}
	defer func() { require.NoError(t, path.Close(ctx)) }()
	id, err := path.Import(ctx, region.Key)
	if err != nil {
		return err
	}
	op.ID, op.Remote, op.Offset, op.Deadline = 1, id, op.Offset-region.Addr, time.Now().Add(20*time.Second)
	if _, err := path.Submit([]transport.Op{op}); err != nil {
		return err
	}
	done := make([]transport.Completion, 1)
	if _, err := path.Reap(ctx, done); err != nil {
		return err
	}
	if done[0].Status != transport.OK {
		return fmt.Errorf("status %d: %w", done[0].Status, done[0].Err)
	}
	return nil
}

// nativeAttacks reads and writes the object without the master.
func (c *campaign) nativeAttacks(t *testing.T, who attacker, note noter) {
	t.Helper()
	got := make([]byte, len(victim))
	err := c.native(t, who, transport.Read, got, 0, nil)
	note("read the object by the native protocol", string(got) != victim, "%v", err)
	err = c.native(t, who, transport.Write, []byte(strings.Repeat("!", len(victim))), 0, nil)
	note("write the object by the native protocol", c.get(t) == victim, "%v", err)
}
