package master_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/mooncake-go/mooncake/core/config"
	"github.com/mooncake-go/mooncake/core/master"
)

// Every setting of the packages of the master reaches it: if all settings differ from their
// defaults, no field of its configuration keeps its default, except fields without a key.
func TestEveryMasterSettingArrives(t *testing.T) {
	loaded, err := config.Load(config.Options{})
	require.NoError(t, err)
	defaults := loaded.Config.Master
	want := master.DefaultConfig()
	want.WriteGrace = time.Minute // It has no key.
	require.Equal(t, want, master.FromConfig(defaults), "both have the same defaults")
	changed := defaults
	v := reflect.ValueOf(&changed).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); f.Kind() {
		case reflect.Int, reflect.Int64:
			f.SetInt(f.Int() + 7)
		case reflect.Uint64:
			f.SetUint(f.Uint() + 7)
		case reflect.Float64:
			f.SetFloat(f.Float() / 2)
		case reflect.Bool:
			f.SetBool(!f.Bool())
		case reflect.String:
			f.SetString("free_ratio_first")
		}
	}
	noKey := map[string]bool{"Version": true, "ExistRanks": true, "MaxBatch": true}
	a, b := reflect.ValueOf(master.DefaultConfig()), reflect.ValueOf(master.FromConfig(changed))
	for i := range a.NumField() {
		name := a.Type().Field(i).Name
		require.Equal(t, noKey[name], reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()), name)
	}
	x, y := reflect.ValueOf(master.DefaultConfig().Tasks), reflect.ValueOf(master.FromConfig(changed).Tasks)
	for i := range x.NumField() {
		require.NotEqual(t, x.Field(i).Interface(), y.Field(i).Interface(), x.Type().Field(i).Name)
	}
}
