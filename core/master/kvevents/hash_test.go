package kvevents

import (
	"fmt"
	"math"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSequenceHash(t *testing.T) {
	for key, want := range map[string]uint64{
		"0": 0, "00": 0, "7": 7, "12345": 12345, "0x2a": 42, "0XFF": 255, "0xfF": 255, "0x0": 0, "007": 7,
		"18446744073709551615": math.MaxUint64, "0xffffffffffffffff": math.MaxUint64, "0x00000000000000000001": 1,
	} {
		got, ok := sequenceHash(key)
		require.True(t, ok, key)
		require.Equal(t, want, got, key)
	}
	for _, key := range []string{
		"", "0x", "0X", "x", "not-a-hash", "123abc", "0x12g", "-1", "+1", " 1", "1 ", "1_000", "0b11", "0o7", "1.0", "1e3", "0xx1", "2a",
		"18446744073709551616", "0x10000000000000000", "99999999999999999999", "model@7", "7\x00", "٣", "/1", ":1", "0x@",
	} {
		_, ok := sequenceHash(key)
		require.False(t, ok, "%q", key)
	}
}

// FuzzSequenceHash compares with arithmetic that does not overflow.
func FuzzSequenceHash(f *testing.F) {
	for _, s := range []string{"", "0x", "18446744073709551616", "0xFFFFFFFFFFFFFFFF", "1_0", "-0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		digits, base, set := key, 10, "0123456789"
		if rest, ok := strings.CutPrefix(strings.ToLower(key), "0x"); ok && len(rest) == len(key)-2 {
			digits, base, set = rest, 16, "0123456789abcdef"
		}
		want, ok := new(big.Int), false
		if digits != "" && strings.Trim(digits, set) == "" {
			_, ok = want.SetString(digits, base)
			ok = ok && want.IsUint64()
		}
		got, is := sequenceHash(key)
		if is != ok || ok && got != want.Uint64() {
			t.Fatalf("%q is %d, %v", key, got, is)
		}
	})
}

func TestParseEndpoint(t *testing.T) {
	for text, want := range map[string]endpoint{
		"tcp://*:5557": {"tcp", "0.0.0.0:5557"}, "tcp://127.0.0.1:*": {"tcp", "127.0.0.1:0"}, "tcp://[::1]:7": {"tcp", "[::1]:7"},
		"tcp://localhost:0": {"tcp", "localhost:0"}, "ipc:///run/a b": {"unix", "/run/a b"}, "ipc://@name": {"unix", "@name"}, "ipc://rel": {"unix", "rel"},
	} {
		got, err := parseEndpoint(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"", "5557", "tcp://", "tcp://host", "tcp://:5", "tcp://*:65536", "tcp://*:-1", "tcp://*:http", "tcp://::1:5", "udp://*:5", "inproc://x", "ipc://", "ipc://@", "TCP://*:1"} {
		_, err := parseEndpoint(text)
		require.ErrorContains(t, err, fmt.Sprintf("%q", text), text)
		_, err = New(Config{Endpoint: text, BackendID: "b"})
		require.Error(t, err)
	}
	_, err := New(Config{Endpoint: "tcp://*:0"})
	require.ErrorContains(t, err, "backend ID")
}
