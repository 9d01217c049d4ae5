package embedded

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/mooncake-go/mooncake/core/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func urlOf(host string) string { return "http://" + host + ":2380" }

// of is an etcd member of a list: its name, host and number, and whether it has ever run.
func of(name, host string, id uint64, ran bool) listed {
	l := listed{ID: id, Name: name, PeerURLs: []string{urlOf(host)}}
	if ran {
		l.ClientURLs = []string{"http://" + host + ":2379"}
	}
	return l
}

// TestDecide: what c does, whose folder is empty, by what a and b say.
func TestDecide(t *testing.T) {
	urls := map[string]string{"a": urlOf("1"), "b": urlOf("2"), "c": urlOf("3")}
	a, b := of("a", "1", 1, true), of("b", "2", 2, true)
	silent, waits := view{}, func(name string) view { return view{answered: true, waits: name} }
	lists := func(members ...listed) view { return view{answered: true, members: members} }
	never, ran, moved, added := of("c", "3", 3, false), of("c", "3", 3, true), of("c", "9", 3, true), of("", "3", 7, false)
	for name, c := range map[string]struct {
		a, b view
		want act
		old  uint64
		why  string
	}{
		"no peer answers":                          {silent, silent, wait, 0, "a, b to start"},
		"one is missing":                           {waits("a"), silent, wait, 0, "b to start"},
		"something else answers":                   {waits("a"), view{answered: true}, wait, 0, "b to start"},
		"all are empty":                            {waits("a"), waits("b"), fresh, 0, ""},
		"one has another name":                     {waits("a"), waits("c"), refuse, 0, "calls itself c"},
		"another one was first":                    {lists(of("a", "1", 1, false), of("b", "2", 2, false), never), waits("b"), fresh, 0, ""},
		"the others serve already":                 {lists(a, b, never), lists(a, b, never), fresh, 0, ""},
		"lost":                                     {lists(a, b, ran), lists(a, b, ran), replace, 3, ""},
		"lost, and the others are no majority":     {lists(a, b, ran), silent, replace, 3, ""},
		"lost, which one of the others knows":      {lists(a, b, never), lists(a, b, ran), replace, 3, ""},
		"another machine":                          {lists(a, b, moved), lists(a, b, moved), replace, 3, ""},
		"another machine for one that never ran":   {lists(a, b, of("c", "9", 3, false)), silent, replace, 3, ""},
		"it ended between removal and addition":    {lists(a, b), lists(a, b), replace, 0, ""},
		"it ended after the addition":              {lists(a, b, added), lists(a, b, added), adopt, 0, ""},
		"added, which one does not know yet":       {lists(a, b), lists(a, b, added), replace, 0, ""},
		"the cluster is complete without this one": {lists(a, b, of("d", "4", 4, true)), silent, refuse, 0, "none is called c"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide("c", urls, map[string]view{"a": c.a, "b": c.b})
			require.Equal(t, c.want, d.act)
			require.Contains(t, d.why, c.why)
			if c.old == 0 {
				require.Nil(t, d.old)
			} else {
				require.Equal(t, c.old, d.old.ID)
			}
		})
	}
}

func TestClusterOfAJoiner(t *testing.T) {
	s := &Server{Config: Config{Self: config.HAMember{Name: "c", Host: "3", Client: 2379, Peer: 2380}}}
	require.Equal(t, "a=http://1:2380,c=http://3:2380", s.cluster([]listed{of("a", "1", 1, true), of("", "3", 7, false)}))
}

func TestSelf(t *testing.T) {
	members := []config.HAMember{{Name: "a", Host: "h"}, {Name: "b", Host: "h"}, {Name: "c", Host: "i"}}
	one, err := Self(config.Master{RPCAddress: "i"}, members)
	require.NoError(t, err)
	require.Equal(t, "c", one.Name)
	one, err = Self(config.Master{RPCAddress: "h", HAMember: "b"}, members)
	require.NoError(t, err)
	require.Equal(t, "b", one.Name)
	for _, unclear := range []string{"h", "0.0.0.0"} {
		_, err = Self(config.Master{RPCAddress: unclear}, members)
		require.ErrorContains(t, err, "--ha_member NAME")
	}
}

// TestLog: levels and fields are kept, and the reason of the end is what etcd says of it.
func TestLog(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	last := relay(strings.NewReader(strings.Join([]string{
		`{"level":"info","ts":"now","caller":"x.go:1","msg":"starting","b":2,"a":"1"}`,
		`{"level":"warn","msg":"server error","error":"it was removed"}`,
		`{"level":"fatal","msg":"listener failed","error":"server is stopping"}`,
		`2026/01/01 00:00:00 WARNING: [core] hm`,
		`panic: no`,
	}, "\n")), log)
	require.Equal(t, ": server error: it was removed", last)
	require.Equal(t, `level=INFO msg="etcd: starting" a=1 b=2
level=WARN msg="etcd: server error" error="it was removed"
level=ERROR msg="etcd: listener failed" error="server is stopping"
level=WARN msg="etcd: 2026/01/01 00:00:00 WARNING: [core] hm"
level=ERROR msg="etcd: panic: no"
`, out.String())
	require.Equal(t, ": panic: yes", relay(strings.NewReader("panic: yes\n"+strings.Repeat("x", 2*maxLine)), slog.New(slog.DiscardHandler)))
}

// TestEmpty: data is what has a log. A folder that cannot be read may have one.
func TestEmpty(t *testing.T) {
	s := &Server{Config: Config{Folder: t.TempDir()}}
	check := func(want bool) {
		t.Helper()
		got, err := s.empty()
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	check(true)
	member := filepath.Join(s.data(), "member")
	require.NoError(t, os.MkdirAll(filepath.Join(member, "snap"), 0o700))
	check(true)
	require.NoDirExists(t, member, "it ended before it had a log")
	require.NoError(t, os.MkdirAll(filepath.Join(member, "wal"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(member, "wal", "0.wal"), nil, 0o600))
	check(false)
	require.NoError(t, os.RemoveAll(filepath.Join(member, "wal")))
	require.NoError(t, os.WriteFile(filepath.Join(member, "wal"), nil, 0o600)) // A file in its place: no folder to read.
	_, err := s.empty()
	require.Error(t, err)
	require.DirExists(t, member)
}

func TestForeignVariables(t *testing.T) {
	for _, kv := range []string{"ETCD_PORT=tcp://10.0.0.1:2379", "NOTIFY_SOCKET=/run/x", "LISTEN_FDS=1"} {
		require.True(t, foreign(kv), kv)
	}
	require.False(t, foreign("PATH=/bin"))
}
