package wire

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/mooncake-go/mooncake/sdk/errs"
	pluginv1 "github.com/mooncake-go/mooncake/sdk/proto/mooncake/plugin/v1"
)

func TestEveryCodeAndClassSurvives(t *testing.T) {
	for _, code := range errs.Codes() {
		if code == errs.OK {
			continue
		}
		for class := errs.ClassUnknown; class <= errs.ClassPermanent; class++ {
			err := fmt.Errorf("outer: %w", &errs.Error{Code: code, Class: class, Op: "thing: do", Err: errors.New("cause")})
			for way, back := range map[string]error{
				"message": FromProto(ToProto(err)),
				"status":  FromStatus("op", ToStatus(err)),
			} {
				assert.Equal(t, code, errs.CodeOf(back), way)
				assert.Equal(t, class, errs.ClassOf(back), way)
				assert.ErrorIs(t, back, code.Err(), way)
				assert.ErrorContains(t, back, "outer: thing: do", way)
				assert.LessOrEqual(t, strings.Count(back.Error(), code.String()), 1, "%s names the code once: %s", way, back)
			}
		}
	}
}

func TestNoErrorIsNoError(t *testing.T) {
	assert.Nil(t, ToProto(nil))
	assert.NoError(t, FromProto(nil))
	assert.NoError(t, FromProto(&pluginv1.Error{Message: "ignored"}))
	assert.NoError(t, ToStatus(nil))
	assert.NoError(t, FromStatus("op", nil))
}

func TestHostileErrors(t *testing.T) {
	for name, m := range map[string]*pluginv1.Error{
		"unknown code":    {Code: -424242, Class: 4, Message: "x"},
		"positive code":   {Code: 5, Message: "x"},
		"smallest number": {Code: math.MinInt32, Message: "x"},
	} {
		assert.Equal(t, errs.Internal, errs.CodeOf(FromProto(m)), name)
	}
	err := FromProto(&pluginv1.Error{Code: int32(errs.InvalidKey), Class: 99, Message: strings.Repeat("é", MaxText)})
	assert.Equal(t, errs.ClassUnknown, errs.ClassOf(err))
	assert.LessOrEqual(t, len(err.Error()), MaxText+64)
	assert.True(t, utf8.ValidString(err.Error()))
	assert.NotEmpty(t, FromProto(&pluginv1.Error{Code: -600}).Error())

	// A status whose details claim success is a failure all the same.
	st, derr := status.New(codes.Internal, "boom").WithDetails(&pluginv1.Error{})
	require.NoError(t, derr)
	assert.Equal(t, errs.Internal, errs.CodeOf(FromStatus("op", st.Err())))
}

func TestErrorsOfTheConnection(t *testing.T) {
	for grpc, want := range map[codes.Code]errs.Code{
		codes.Unavailable: errs.RPCFail, codes.Canceled: errs.RPCFail, codes.DeadlineExceeded: errs.RPCTimeout,
		codes.ResourceExhausted: errs.BufferOverflow, codes.Unimplemented: errs.NotSupported,
		codes.InvalidArgument: errs.InvalidParams, codes.Internal: errs.Internal, codes.DataLoss: errs.Internal,
	} {
		err := FromStatus("op", status.Error(grpc, "text"))
		assert.Equal(t, want, errs.CodeOf(err), grpc.String())
		assert.ErrorContains(t, err, "text")
	}
	err := FromStatus("op", status.Error(codes.Unavailable, "gone"))
	assert.Equal(t, errs.ClassTransientPeer, errs.ClassOf(err))

	for cause, want := range map[error]errs.Code{context.Canceled: errs.RPCFail, context.DeadlineExceeded: errs.RPCTimeout} {
		assert.Equal(t, want, errs.CodeOf(FromStatus("op", ToStatus(fmt.Errorf("x: %w", cause)))))
	}
}

func TestTextIsSafeToSend(t *testing.T) {
	m := ToProto(errors.New("bad \xff\xfe bytes " + strings.Repeat("é", MaxText)))
	_, err := proto.Marshal(m)
	require.NoError(t, err)
	assert.LessOrEqual(t, len(m.GetMessage()), MaxItemText)
	assert.Error(t, ToStatus(errors.New("\xff")))
}

func FuzzFromProto(f *testing.F) {
	for _, m := range []*pluginv1.Error{{}, {Code: -600, Class: 4, Message: "x"}, {Code: 7, Class: math.MaxUint32}} {
		raw, err := proto.Marshal(m)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := &pluginv1.Error{}
		if proto.Unmarshal(raw, m) != nil {
			return
		}
		err := FromProto(m)
		if (err == nil) != (m.GetCode() == 0) {
			t.Fatalf("code %d became %v", m.GetCode(), err)
		}
		if err == nil {
			return
		}
		again := FromProto(ToProto(err))
		if errs.CodeOf(again) != errs.CodeOf(err) || errs.ClassOf(again) != errs.ClassOf(err) {
			t.Fatalf("%v became %v", err, again)
		}
	})
}

// TestNamed: a text has the plugin and the operation once, whoever has named them before.
func TestNamed(t *testing.T) {
	const op = "evict/x: configure"
	for text, want := range map[string]string{
		"no device":                                  "evict/x: configure: no device",
		"evict/x: no device":                         "evict/x: configure: no device",
		"evict/x: configure: no device":              "evict/x: configure: no device",
		"evict/x: configuration: no device":          "evict/x: configure: no device", // as the libraries for Python and Rust call it
		"evict/x: configure: evict/x: configure: no": "evict/x: configure: no",
		"evict/y: no device":                         "evict/x: configure: evict/y: no device",
		"configuration: of the device":               "evict/x: configure: configuration: of the device",
		"evict/x: ":                                  "evict/x: configure: evict/x: ",
	} {
		assert.Equal(t, want, Named(op, text))
		if text != "evict/x: " { // An error has a text.
			assert.Equal(t, want, FromAnswer(op, &pluginv1.Error{Code: int32(errs.InvalidKey), Message: text}).Error())
			assert.Equal(t, want, Wrap(errs.Internal, op, errors.New(text)).Error())
		}
	}
	assert.Equal(t, "evict/x: start: configuration: no", Named("evict/x: start", "evict/x: configuration: no"), "another operation")
	assert.NoError(t, FromAnswer(op, nil))
	assert.NoError(t, Namer("evict/x").Err("start", nil))
}
