package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/sdk/plugin"
	"github.com/mooncake-go/mooncake/sdk/tier"
)

func TestManifestMatchesConfig(t *testing.T) {
	m, err := plugin.ScanManifest([]byte("\x7fELF" + manifestText))
	require.NoError(t, err)
	require.Equal(t, "tier/file", m.ID.String())
	require.True(t, m.Has(tier.CapSurvives))
	_, err = plugin.NegotiateAPI(tier.API(), m.API)
	require.NoError(t, err)
	var schema struct {
		Properties map[string]struct{ Default any }
	}
	dec := json.NewDecoder(bytes.NewReader(m.ConfigSchema))
	dec.UseNumber()
	require.NoError(t, dec.Decode(&schema))
	v := reflect.ValueOf(*DefaultConfig())
	require.Len(t, schema.Properties, v.NumField())
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("json")
		p, ok := schema.Properties[name]
		require.True(t, ok, "%s is not in the schema", name)
		require.Equal(t, fmt.Sprint(v.Field(i).Interface()), fmt.Sprint(p.Default), name)
	}
}

func TestConfigRefuses(t *testing.T) {
	none, err := Factory().New(DefaultConfig())
	require.NoError(t, err)
	require.ErrorContains(t, none.Start(t.Context(), newHost()), "path is empty")
	good := DefaultConfig()
	good.Path = "/x"
	require.NoError(t, good.Validate())
	_, err = Factory().New(good)
	require.NoError(t, err)
	for want, change := range map[string]func(*Config){
		`path is "x"`:                 func(c *Config) { c.Path = "x" },
		"capacity_bytes is 1048575":   func(c *Config) { c.Capacity = 1<<20 - 1 },
		"capacity_bytes is 112589990": func(c *Config) { c.Capacity = 1<<50 + 1 },
		`io is "aio"`:                 func(c *Config) { c.IO = "aio" },
		"staging_bytes is 1":          func(c *Config) { c.StagingBytes = 1 },
		"max_inflight_ops is 0":       func(c *Config) { c.MaxInflightOps = 0 },
		"op_timeout is 48h0m0s":       func(c *Config) { c.OpTimeout = plugin.Duration(48 * time.Hour) },
	} {
		c := *good
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
		_, err := Factory().New(&c)
		require.Error(t, err)
	}
}
