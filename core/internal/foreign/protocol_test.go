package foreign

import (
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bytesOf reads hexadecimal digits.
func bytesOf(t testing.TB, digits string) []byte {
	b, err := hex.DecodeString(digits)
	require.NoError(t, err)
	return b
}

// ready is a request of upstream's ServiceReady as captured, and readyAnswer its answer.
const (
	ready       = "150000000000000056bb817b0000000000000000"
	readyAnswer = "1500000000000000110000000000000035ccb31c0487800c01000105322e302e30"
)

func TestFromClient(t *testing.T) {
	for _, c := range []struct {
		name  string
		first string // hexadecimal
		want  Protocol
	}{
		{"ServiceReady of a store client", ready, CoroRPC},
		{"PutEnd of a store client, call 3", "150000000300000099208b8e4900000000000000239281d104", CoroRPC},
		{"coro_rpc with another version", "1501000000000000", Unknown},
		{"handshake of coro_rpc over RDMA", "3e3ae3a2fe80", CoroRDMA},
		{"GET", hex.EncodeToString([]byte("GET /metrics HTTP/1.1\r\n")), HTTP},
		{"PUT, which begins as HTTP/2 does", hex.EncodeToString([]byte("PUT /metadata?key=a HTTP/1.1\r\n")), HTTP},
		{"POST", hex.EncodeToString([]byte("POST /api/v1/tasks HTTP/1.1\r\n")), HTTP},
		{"DELETE", hex.EncodeToString([]byte("DELETE /metadata?key=a HTTP/1.1\r\n")), HTTP},
		{"HTTP/2", hex.EncodeToString([]byte(http2Hello)), HTTP2},
		{"TLS 1.0 record of a ClientHello", "16030100c5010000c1", TLS},
		{"PING of Redis", hex.EncodeToString([]byte("*1\r\n$4\r\nPING\r\n")), Redis},
		{"this project's", hex.EncodeToString([]byte("MCL1\x00\x00\x00\x00")), Lean},
		{"a length and JSON, a handshake of the transfer engine", "2e000000000000007b226e", Unknown},
		{"too few bytes", "150000", Unknown},
		{"nothing", "", Unknown},
	} {
		assert.Equal(t, c.want, FromClient(bytesOf(t, c.first)), c.name)
	}
}

func TestFromServer(t *testing.T) {
	for _, c := range []struct {
		name  string
		first string // hexadecimal
		want  Protocol
	}{
		{"ServiceReady of an upstream master", readyAnswer, CoroRPC},
		{"an error of an upstream master", "15000b00070000001900000000000000", CoroRPC},
		{"settings of a gRPC server", "00001204000000000000050000400000", HTTP2},
		{"empty settings", "000000040000000000", HTTP2},
		{"HTTP/1.1", hex.EncodeToString([]byte("HTTP/1.1 400 Bad Request\r\n")), HTTP},
		{"alert of a TLS server", "15030100020246", TLS},
		{"hello of a TLS server", "160303007a020000", TLS},
		{"Redis", hex.EncodeToString([]byte("-ERR unknown command 'PRI'\r\n")), Redis},
		{"Redis with a password", hex.EncodeToString([]byte("-NOAUTH Authentication required.\r\n")), Redis},
		{"this project's", hex.EncodeToString([]byte("MCL1\x00\x00\x00\x00")), Lean},
		{"SSH", hex.EncodeToString([]byte("SSH-2.0-x\r\n")), Unknown},
		{"too few bytes", "1500", Unknown},
	} {
		assert.Equal(t, c.want, FromServer(bytesOf(t, c.first)), c.name)
	}
}

// TestRefusalOfCoroRPC: the answer has the sequence number of the call, a code, and the text in
// coro_rpc's encoding of strings.
func TestRefusalOfCoroRPC(t *testing.T) {
	request := bytesOf(t, "150000000700000056bb817b0000000000000000")
	want := "15000c00" + "07000000" + "07000000" + "00000000" + "76facf9d" + "026e6f" // as the wire has it: code 12, call 7, "no"
	assert.Equal(t, want, hex.EncodeToString(Refusal(CoroRPC, request, "no")))
	assert.Nil(t, Refusal(CoroRPC, request[:7], "no"), "the sequence number is missing")

	long := Refusal(CoroRPC, request, string(make([]byte, 300)))
	require.Len(t, long, 16+5+255)
	assert.EqualValues(t, 5+255, binary.LittleEndian.Uint32(long[8:]))
	assert.EqualValues(t, 255, long[20])
}

func TestRefusalOfOthers(t *testing.T) {
	assert.Equal(t, "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n",
		string(Refusal(HTTP, []byte("GET "), "no")))
	assert.Equal(t, "-ERR no\r\n", string(Refusal(Redis, []byte("*1\r\n"), "no")))
	for _, p := range []Protocol{Unknown, CoroRDMA, TLS} {
		assert.Nil(t, Refusal(p, []byte("abcd"), "no"), p)
	}
}

func TestShow(t *testing.T) {
	assert.Equal(t, `PUT /metadata`, Show(HTTP, []byte("PUT /metadata?key=secret HTTP/1.1\r\nHost: x\r\n")))
	assert.Equal(t, `GET /a\x1b[2J HTTP/1.1`, Show(HTTP, []byte("GET /a\x1b[2J HTTP/1.1\r\n")), "no control sequences")
	assert.Equal(t, `01 02 0a ff "\x01\x02\n\xff"`, Show(Unknown, []byte{1, 2, '\n', 0xff}))
	assert.Empty(t, Show(CoroRPC, bytesOf(t, ready)))
}

// FuzzProtocol: any bytes give a name and a line of printable characters, and an answer only if the
// protocol has one. Bytes after the first Least ones do not change the name.
func FuzzProtocol(f *testing.F) {
	f.Add(bytesOf(f, ready))
	f.Add(bytesOf(f, readyAnswer))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("MCL1\x00\x00\x00\x00"))
	f.Add([]byte{0x16, 3, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		p, q := FromClient(b), FromServer(b)
		if len(b) < Least {
			require.Equal(t, Unknown, p)
			require.Equal(t, Unknown, q)
		} else {
			require.Equal(t, p, FromClient(b[:Least]))
			require.Equal(t, q, FromServer(b[:Least]))
		}
		require.NotEmpty(t, p.String())
		require.NotEmpty(t, q.Server())
		for _, r := range Show(p, b) {
			require.True(t, r >= ' ' && r != 0x7f, "%q", Show(p, b))
		}
		answer := Refusal(p, b, "no")
		switch p {
		case CoroRPC:
			require.Equal(t, len(b) >= 8, answer != nil)
			require.True(t, answer == nil || FromServer(answer) == CoroRPC)
		case HTTP, Redis:
			require.Equal(t, p, FromServer(answer))
		default:
			require.Nil(t, answer)
		}
	})
}
