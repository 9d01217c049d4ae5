package wire

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/mooncake-go/mooncake/sdk/errs"
	"github.com/mooncake-go/mooncake/sdk/x/transportkit"
)

func TestHeadersRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		q := Request{
			Type: FrameType(rapid.IntRange(1, 2).Draw(rt, "type")), Length: rapid.Uint32Range(1, MaxSlice).Draw(rt, "length"),
			Incarnation: rapid.Uint64().Draw(rt, "incarnation"), Region: rapid.Uint64().Draw(rt, "region"),
			Offset: rapid.Uint64().Draw(rt, "offset"), Patience: rapid.Uint32().Draw(rt, "patience"),
		}
		copy(q.Token[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "token"))
		b := make([]byte, RequestSize)
		q.Put(b)
		var back Request
		require.NoError(rt, back.Decode(b))
		require.Equal(rt, q, back)

		a := Answer{
			Type: FrameType(rapid.IntRange(3, 5).Draw(rt, "answer")), Reason: Reason(rapid.ByteMin(1).Draw(rt, "reason")), Class: errs.Class(rapid.Byte().Draw(rt, "class")),
			Code: errs.Code(rapid.Int32().Draw(rt, "code")), Length: rapid.Uint32().Draw(rt, "answered"), Loss: rapid.Uint16().Draw(rt, "loss"),
		}
		a.Put(b)
		var again Answer
		require.NoError(rt, again.Decode(b))
		require.Equal(rt, a, again)
		var e *errs.Error
		require.ErrorAs(rt, a.Refusal("x"), &e)
		require.Less(rt, int32(e.Code), int32(0))
		require.LessOrEqual(rt, e.Class, errs.ClassPermanent)
	})
}

func FuzzRequest(f *testing.F) {
	b := make([]byte, RequestSize)
	(&Request{Type: FrameWrite, Length: 9, Incarnation: 1, Region: 2, Offset: 3, Patience: 4}).Put(b)
	f.Add(b)
	f.Add(b[:RequestSize-1])
	f.Fuzz(func(t *testing.T, b []byte) {
		var q Request
		if err := q.Decode(b); err != nil {
			require.ErrorIs(t, err, ErrFrame)
			return
		}
		require.LessOrEqual(t, q.Length, uint32(MaxSlice))
		require.NotZero(t, q.Length)
		out := make([]byte, RequestSize)
		q.Put(out)
		require.Equal(t, b[:RequestSize], out)
	})
}

func FuzzAnswer(f *testing.F) {
	b := make([]byte, AnswerSize)
	(&Answer{Type: FrameError, Reason: ReasonRange, Class: errs.ClassPermanent, Code: errs.InvalidParams}).Put(b)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Answer
		if err := a.Decode(b); err != nil {
			require.ErrorIs(t, err, ErrFrame)
			return
		}
		out := make([]byte, AnswerSize)
		a.Put(out)
		require.Equal(t, b[:AnswerSize], out)
	})
}

func FuzzBlobs(f *testing.F) {
	f.Add(Endpoint{Incarnation: 3, Addrs: []string{"a:1", "[::1]:2"}, Pin: Fingerprint{1}}.Encode())
	k := Key{Incarnation: 3, Region: 1, Length: 10, Access: 3}
	f.Add([]byte(k.Encode()))
	f.Fuzz(func(t *testing.T, b []byte) {
		if e, err := DecodeEndpoint(b); err == nil {
			require.True(t, bytes.Equal(b, e.Encode()))
		} else {
			require.ErrorIs(t, err, transportkit.ErrBlob)
		}
		if k, err := DecodeKey(b); err == nil {
			require.NotZero(t, k.Region)
		} else {
			require.ErrorIs(t, err, transportkit.ErrBlob)
		}
	})
}
