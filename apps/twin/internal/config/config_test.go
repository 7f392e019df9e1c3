package config

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestMissingKeysReadAsEmpty(t *testing.T) {
	file, err := Load(write(t, `{"GeoPort":"8083","UserPort":8086,"RatePort":"x"}`))
	if err != nil {
		t.Fatal(err)
	}
	if file["GeoMongoAddress"] != "" || file.Port("GeoPort") != 8083 {
		t.Errorf("got %v", file)
	}
	if file.Port("UserPort") != 0 || file.Port("RatePort") != 0 || file.Port("SearchPort") != 0 {
		t.Errorf("a port that is no text with a number must read as 0: %v", file)
	}
}

func TestBrokenFileReadsAsNoKeys(t *testing.T) {
	for _, path := range []string{write(t, `{"GeoPort":"8083"`), write(t, ``), "/nonexistent"} {
		file, err := Load(path)
		if err == nil || file == nil || file["GeoPort"] != "" {
			t.Errorf("%s: %v %v", path, file, err)
		}
	}
}

func TestTunables(t *testing.T) {
	t.Setenv("A", "12")
	t.Setenv("B", "many")
	t.Setenv("C", "2.5")
	if Int("A", 1) != 12 || Int("B", 1) != 1 || Int("D", 1) != 1 {
		t.Error("Int")
	}
	if Float("C", 1) != 2.5 || Float("B", 1) != 1 {
		t.Error("Float")
	}
	if Text("B", "x") != "many" || Text("D", "x") != "x" {
		t.Error("Text")
	}
}
