package handshake

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func yes(b bool) *bool { return &b }

func TestUpstreamText(t *testing.T) {
	m := Message{LocalPath: "a:1@mlx5_0", LID: 7, GID: "00:01", PeerPath: "b:2@mlx5_1", QueuePairs: []uint32{4711, 4712}}
	text, err := m.Encode()
	require.NoError(t, err)
	require.JSONEq(t, `{"payload":"","local_nic_path":"a:1@mlx5_0","local_lid":7,"local_gid":"00:01",
		"peer_nic_path":"b:2@mlx5_1","qp_num":[4711,4712],"reply_msg":""}`, string(text), "a node of one round")
	m.Ready = yes(false)
	text, err = m.Encode()
	require.NoError(t, err)
	require.Contains(t, string(text), `"ready_ack":false`, "its presence offers the second round")
	back, err := Decode(append(text, '\n'))
	require.NoError(t, err)
	require.Equal(t, &m, back)
	back, err = Decode([]byte(`{"barex_port":1,"qp_num":[],"local_lid":4294967295}`))
	require.NoError(t, err, "what we do not know is ignored")
	require.Equal(t, uint32(1<<32-1), back.LID)
}

func TestDecodeRefuses(t *testing.T) {
	for name, text := range map[string]string{
		"null": "null", "no JSON": "{", "array": "[]", "negative": `{"qp_num":[-1]}`, "float": `{"qp_num":[1.5]}`,
		"25 bits":     `{"qp_num":[16777216]}`,
		"many":        `{"qp_num":[` + strings.Repeat("1,", 255) + `1]}`,
		"long path":   `{"local_nic_path":"` + strings.Repeat("x", 1025) + `"}`,
		"PSN count":   `{"qp_num":[1,2],"x_mooncake_go":{"psn":[1]}}`,
		"PSN 25 bits": `{"qp_num":[1],"x_mooncake_go":{"psn":[16777216]}}`,
	} {
		_, err := Decode([]byte(text))
		require.ErrorIs(t, err, ErrMalformed, name)
	}
}

func TestNICPath(t *testing.T) {
	for path, want := range map[string][2]string{
		"host:12@mlx5_0": {"host:12", "mlx5_0"}, "a@b@rxe0": {"a@b", "rxe0"}, "[::1]:7@x": {"[::1]:7", "x"},
	} {
		server, device, ok := SplitNICPath(path)
		require.True(t, ok)
		require.Equal(t, want, [2]string{server, device})
		require.Equal(t, path, NICPath(server, device))
	}
	for _, bad := range []string{"", "@", "a@", "@b", "ab"} {
		_, _, ok := SplitNICPath(bad)
		require.False(t, ok, bad)
	}
}

func TestFrame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 20_000).Draw(t, "text")
		kind := rapid.ByteRange(0, 3).Draw(t, "kind")
		var b bytes.Buffer
		require.NoError(t, WriteFrame(&b, kind, text))
		require.Equal(t, uint64(len(text)+1), binary.LittleEndian.Uint64(b.Bytes()), "the length counts the type")
		got, back, err := ReadFrame(iotest.HalfReader(&b), MaxFrame)
		require.NoError(t, err)
		require.Equal(t, kind, got)
		require.True(t, bytes.Equal(text, back))
	})
}

func TestFrameRefuses(t *testing.T) {
	head := func(n uint64, rest string) io.Reader {
		return strings.NewReader(string(binary.LittleEndian.AppendUint64(nil, n)) + rest)
	}
	kind, text, err := ReadFrame(head(2, "{}"), 10)
	require.NoError(t, err, "the old protocol")
	require.EqualValues(t, TypeConnection, kind)
	require.Equal(t, "{}", string(text))
	for name, r := range map[string]io.Reader{
		"nothing": head(0, ""), "too long": head(11, "01234567890"), "a large number": head(1<<63, "x"),
	} {
		_, _, err := ReadFrame(r, 10)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
	_, _, err = ReadFrame(head(5, "abc"), 10)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	_, _, err = ReadFrame(strings.NewReader("abc"), 10)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"local_nic_path":"a@b","qp_num":[1,2],"ready_ack":true,"x_mooncake_go":{"psn":[3,4],"incarnation":18446744073709551615}}`))
	f.Add([]byte("null"))
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := Decode(text)
		if err != nil {
			return
		}
		again, err := m.Encode()
		require.NoError(t, err)
		back, err := Decode(again)
		require.NoError(t, err)
		third, err := back.Encode()
		require.NoError(t, err)
		require.Equal(t, again, third)
	})
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x03\x00\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		kind, text, err := ReadFrame(bytes.NewReader(b), 1<<16)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(text), len(b)-8)
		require.LessOrEqual(t, kind, byte(TypeProbe))
	})
}
