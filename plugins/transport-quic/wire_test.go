package quic

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
)

func TestHeadersRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := request{
			Type: frameType(rapid.IntRange(1, 2).Draw(rt, "type")), Length: rapid.Uint32Range(1, maxSlice).Draw(rt, "length"),
			Incarnation: rapid.Uint64().Draw(rt, "incarnation"), Region: rapid.Uint64().Draw(rt, "region"),
			Offset: rapid.Uint64().Draw(rt, "offset"), Patience: rapid.Uint32().Draw(rt, "patience"),
		}
		copy(q.Token[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "token"))
		b := make([]byte, requestSize)
		q.put(b)
		var back request
		require.NoError(rt, back.decode(b))
		require.Equal(rt, q, back)

		a := answer{
			Type: frameType(rapid.IntRange(3, 5).Draw(rt, "answer")), Reason: reason(rapid.ByteMin(1).Draw(rt, "reason")), Class: errs.Class(rapid.Byte().Draw(rt, "class")),
			Code: errs.Code(rapid.Int32().Draw(rt, "code")), Length: rapid.Uint32().Draw(rt, "answered"), Loss: rapid.Uint16().Draw(rt, "loss"),
		}
		a.put(b)
		var again answer
		require.NoError(rt, again.decode(b))
		require.Equal(rt, a, again)
		var e *errs.Error
		require.ErrorAs(rt, a.refusal("x"), &e)
		require.Less(rt, int32(e.Code), int32(0))
		require.LessOrEqual(rt, e.Class, errs.ClassPermanent)
	})
}

func FuzzRequest(f *testing.F) {
	b := make([]byte, requestSize)
	(&request{Type: frameWrite, Length: 9, Incarnation: 1, Region: 2, Offset: 3, Patience: 4}).put(b)
	f.Add(b)
	f.Add(b[:requestSize-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		var q request
		if err := q.decode(b); err != nil {
			require.ErrorIs(t, err, errFrame)
			return
		}
		require.LessOrEqual(t, q.Length, uint32(maxSlice))
		require.NotZero(t, q.Length)
		out := make([]byte, requestSize)
		q.put(out)
		require.Equal(t, b[:requestSize], out)
	})
}

func FuzzAnswer(f *testing.F) {
	b := make([]byte, answerSize)
	(&answer{Type: frameError, Reason: reasonRange, Class: errs.ClassPermanent, Code: errs.InvalidParams}).put(b)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var a answer
		if err := a.decode(b); err != nil {
			require.ErrorIs(t, err, errFrame)
			return
		}
		out := make([]byte, answerSize)
		a.put(out)
		require.Equal(t, b[:answerSize], out)
	})
}

func FuzzBlobs(f *testing.F) {
	f.Add(endpoint{Incarnation: 3, Addrs: []string{"a:1", "[::1]:2"}, Pin: fingerprint{1}}.encode())
	k := remoteKey{Incarnation: 3, Region: 1, Length: 10, Access: 3}
	f.Add([]byte(k.encode()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := decodeEndpoint(b); err == nil {
			require.True(t, bytes.Equal(b, e.encode()))
		} else {
			require.ErrorIs(t, err, errBlob)
		}
		if k, err := decodeKey(b); err == nil {
			require.NotZero(t, k.Region)
		} else {
			require.ErrorIs(t, err, errBlob)
		}
	})
}
