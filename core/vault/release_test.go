package vault

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/mooncake-go/mooncake/sdk/x/shm"
)

// TestReleasedMessages: a keeper goes on while the stores of its machine are upgraded, so it takes the messages of
// earlier releases and answers as they expect. These are the messages of the first release.
func TestReleasedMessages(t *testing.T) {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: startKeeper(t, DefaultKeeperConfig()), Net: "unixpacket"})
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	kept, err := memfd("bytes")
	require.NoError(t, err)
	defer kept.Close()
	for _, m := range []struct {
		says   string
		with   *os.File
		wants  string
		brings string
	}{
		{says: `{"op":"hello","name":"store_0"}`, wants: `{}`},
		{says: `{"op":"keep","name":"memory-1"}`, with: kept, wants: `{}`},
		{says: `{"op":"names"}`, wants: `{"name":"memory-1"}`},
		{says: `{"op":"names","after":"memory-1"}`, wants: `{}`},
		{says: `{"op":"take","name":"memory-1"}`, wants: `{}`, brings: "bytes"},
		{says: `{"op":"drop","name":"memory-1"}`, wants: `{}`},
		{says: `{"op":"take","name":"memory-1"}`, wants: `{"error":"keeper: take memory-1 of store_0: it is not kept","kind":"not kept"}`},
	} {
		var oob []byte
		if m.with != nil {
			oob = unix.UnixRights(int(m.with.Fd()))
		}
		_, _, err := c.WriteMsgUnix([]byte(m.says), oob, nil)
		require.NoError(t, err)
		b := make([]byte, shm.MaxMessage)
		n, fds, err := shm.ReadMsg(c, b, 1)
		require.NoError(t, err, m.says)
		require.JSONEq(t, m.wants, string(b[:n]), m.says)
		if m.brings == "" {
			require.Empty(t, fds, m.says)
			continue
		}
		require.Len(t, fds, 1, m.says)
		require.Equal(t, m.brings, content(t, os.NewFile(uintptr(fds[0]), "taken")))
	}
}
