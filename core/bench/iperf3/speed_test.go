package iperf3_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/bench/iperf3"
)

func TestSpeed(t *testing.T) {
	const whole = `{"end":{"sum_received":{"bits_per_second":16e9}}}`
	speed, err := iperf3.Speed([]byte(whole), nil)
	require.NoError(t, err)
	require.InDelta(t, 2, speed, 1e-9)
	for _, c := range []struct {
		text string
		err  error
		want string
	}{
		{`{"error":"unable to connect\n"}`, errors.New("exit status 1"), "unable to connect"},
		{whole, errors.New("exit status 1"), "exit status 1"},
		{`{"end":{}}`, errors.New("killed"), "killed"},
		{`{"end":{}}`, nil, "no speed"},
		{`{}`, nil, "no speed"},
		{`oops`, nil, "no JSON"},
		{``, errors.New("killed"), "killed"},
	} {
		_, err := iperf3.Speed([]byte(c.text), c.err)
		require.ErrorContains(t, err, c.want)
	}
}
