// Package iperf3 reads what iperf3 answers.
package iperf3

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Speed returns the speed at which bytes arrived, in GB/s. text is what the client wrote with
// -J, runErr how it ended.
func Speed(text []byte, runErr error) (float64, error) {
	var doc struct {
		Error string `json:"error"`
		End   struct {
			Received struct {
				BitsPerSecond float64 `json:"bits_per_second"`
			} `json:"sum_received"`
		} `json:"end"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return 0, errors.Join(runErr, fmt.Errorf("iperf3's answer is no JSON: %w", err))
	}
	switch {
	case doc.Error != "":
		return 0, errors.New(strings.TrimSpace(doc.Error))
	case runErr != nil:
		return 0, runErr
	case doc.End.Received.BitsPerSecond <= 0:
		return 0, errors.New("iperf3's answer has no speed")
	}
	return doc.End.Received.BitsPerSecond / 8e9, nil
}
