package store_test

import (
	"strings"
	"testing"
	"time"

	"apps/internal/store"
	"apps/internal/store/storetest"
)

func TestCacheTellsAMissFromAFailure(t *testing.T) {
	server := storetest.NewMemcached(t)
	cache, err := store.NewCache(server.Address, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	server.Put("a", "1")
	server.Put("empty", "")
	values, err := cache.GetMulti([]string{"a", "b", "empty"})
	if err != nil || len(values) != 2 || string(values["a"]) != "1" {
		t.Errorf("%v %v", values, err)
	}
	if err := cache.Set("c", []byte("3")); err != nil || server.Get("c") != "3" {
		t.Errorf("set: %v, %q", err, server.Get("c"))
	}
	if values, err := cache.GetMulti(nil); err != nil || len(values) != 0 {
		t.Errorf("no keys: %v %v", values, err)
	}
	server.Stop()
	if _, err := cache.GetMulti([]string{"a"}); err == nil {
		t.Error("a stopped server was read")
	}
	if err := cache.Set("a", nil); err == nil {
		t.Error("a stopped server was written")
	}
}

func TestCacheNameMustResolveButNotAnswer(t *testing.T) {
	if _, err := store.NewCache("127.0.0.1:1", time.Second); err != nil {
		t.Error(err)
	}
	for _, address := range []string{"memcached.invalid:11211", "127.0.0.1"} {
		if _, err := store.NewCache(address, time.Second); err == nil {
			t.Errorf("%q was accepted", address)
		}
	}
}

func TestEmptyCacheAddressFailsWhenUsed(t *testing.T) {
	cache, err := store.NewCache("", time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cache.GetMulti([]string{"a"}); err == nil {
		t.Error("nothing was read from nowhere")
	}
}

func TestDatabaseAddressMayNotBeEmpty(t *testing.T) {
	begin := time.Now()
	_, err := store.DialMongo(t.Context(), "", "db", nil)
	if err == nil || !strings.Contains(err.Error(), "dial") || time.Since(begin) > time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}
