package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"
)

// Certificates lie in this folder of the working directory.
const (
	caFile   = "x509/ca_cert.pem"
	certFile = "x509/server_cert.pem"
	keyFile  = "x509/server_key.pem"
	certName = "hotel.example"
)

// TLS gives the server's and the client's side of the TLS switch: nil, nil when it is off ("", "0", "false"); on for
// "1" and "true"; any other text names the one cipher suite to use.
func TLS(option string) (server, client *tls.Config, err error) {
	var suites []uint16
	switch strings.ToLower(option) {
	case "", "0", "false":
		return nil, nil, nil
	case "1", "true":
	default:
		suite, ok := cipherSuite(option)
		if !ok {
			return nil, nil, fmt.Errorf("unknown TLS cipher suite %q", option)
		}
		suites = []uint16{suite}
	}
	certificate, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, nil, fmt.Errorf("load certificate: %w", err)
	}
	authority, err := os.ReadFile(caFile)
	if err != nil {
		return nil, nil, fmt.Errorf("load authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, nil, errors.New("load authority: no certificate in " + caFile)
	}
	server = &tls.Config{Certificates: []tls.Certificate{certificate}, CipherSuites: suites, MinVersion: tls.VersionTLS12}
	client = &tls.Config{RootCAs: roots, ServerName: certName, CipherSuites: suites, MinVersion: tls.VersionTLS12}
	if suites != nil {
		// Suites of TLS 1.3 cannot be chosen.
		server.MaxVersion, client.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
	}
	return server, client, nil
}

func cipherSuite(name string) (uint16, bool) {
	for _, suite := range tls.CipherSuites() {
		if suite.Name == name {
			return suite.ID, true
		}
	}
	return 0, false
}
