// Command peer is a client and server of hq-interop on quic-go, a peer for mendpath-interop. See docs/interop.md.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"
)

var protocols = []string{"hq-interop"}

func main() {
	if len(os.Args) < 2 {
		fail(errors.New("server or client?"))
	}
	var err error
	switch os.Args[1] {
	case "server":
		err = server(os.Args[2:])
	case "client":
		err = client(os.Args[2:])
	default:
		err = errors.New("server or client?")
	}
	if err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "quic-go:", err)
	os.Exit(1)
}

func config() *quic.Config {
	return &quic.Config{Allow0RTT: true, EnableDatagrams: true, MaxIncomingStreams: 100}
}

func listenUDP(port int) (*net.UDPConn, error) {
	return net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
}

func server(args []string) error {
	flags := flag.NewFlagSet("server", flag.ExitOnError)
	port := flags.Int("port", 0, "UDP port")
	root := flags.String("root", ".", "directory")
	cert := flags.String("cert", "", "PEM file")
	key := flags.String("key", "", "PEM file")
	retry := flags.Bool("retry", false, "validate addresses")
	flags.Parse(args)

	pair, err := tls.LoadX509KeyPair(*cert, *key)
	if err != nil {
		return err
	}
	socket, err := listenUDP(*port)
	if err != nil {
		return err
	}
	transport := &quic.Transport{Conn: socket}
	if *retry {
		transport.VerifySourceAddress = func(net.Addr) bool { return true }
	}
	listener, err := transport.ListenEarly(&tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: protocols}, config())
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		conn, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go func() {
			for {
				stream, err := conn.AcceptStream(context.Background())
				if err != nil {
					return
				}
				go answer(stream, *root)
			}
		}()
	}
}

func answer(stream *quic.Stream, root string) {
	line, err := bufio.NewReaderSize(io.LimitReader(stream, 4096), 4096).ReadString('\n')
	if err != nil && err != io.EOF {
		return
	}
	path := filepath.Join(root, filepath.Clean("/"+strings.TrimSpace(strings.TrimPrefix(line, "GET "))))
	file, err := os.Open(path)
	if err != nil {
		stream.CancelWrite(1)
		return
	}
	defer file.Close()
	if _, err := io.Copy(stream, file); err == nil {
		stream.Close()
	}
}

type options struct {
	resume, zeroRTT, rebind bool
}

func client(args []string) error {
	var opt options
	flags := flag.NewFlagSet("client", flag.ExitOnError)
	flags.BoolVar(&opt.resume, "resume", false, "resume the session for all URLs but the first")
	flags.BoolVar(&opt.zeroRTT, "zero-rtt", false, "as -resume, with early data")
	flags.BoolVar(&opt.rebind, "rebind", false, "move to another port once data comes")
	flags.Bool("key-update", false, "no effect: quic-go updates its keys after 100 packets anyway")
	flags.Parse(args)

	var paths []string
	var host string
	for _, text := range flags.Args() {
		target, err := url.Parse(text)
		if err != nil {
			return err
		}
		host = target.Host
		paths = append(paths, target.Path)
	}
	addr, err := net.ResolveUDPAddr("udp4", host)
	if err != nil {
		return err
	}
	tlsConfig := &tls.Config{
		ServerName:         "localhost",
		InsecureSkipVerify: true,
		NextProtos:         protocols,
		ClientSessionCache: tls.NewLRUClientSessionCache(4),
	}
	var total int64
	count := len(paths)
	if opt.resume || opt.zeroRTT {
		n, err := session(tlsConfig, addr, paths[:1], options{}, false)
		if err != nil {
			return err
		}
		total += n
		if len(paths) > 1 {
			paths = paths[1:]
		}
	}
	n, err := session(tlsConfig, addr, paths, opt, opt.zeroRTT)
	if err != nil {
		return err
	}
	fmt.Printf("%d files, %d bytes\n", count, total+n)
	return nil
}

// session fetches paths over one connection.
func session(tlsConfig *tls.Config, addr *net.UDPAddr, paths []string, opt options, early bool) (int64, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	socket, err := listenUDP(0)
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	transport := &quic.Transport{Conn: socket}
	defer transport.Close()
	var conn *quic.Conn
	if early {
		conn, err = transport.DialEarly(ctx, addr, tlsConfig, config())
	} else {
		conn, err = transport.Dial(ctx, addr, tlsConfig, config())
	}
	if err != nil {
		return 0, err
	}
	defer conn.CloseWithError(0, "")
	var group errgroup.Group
	counts := make([]int64, len(paths))
	for i, path := range paths {
		stream, err := conn.OpenStreamSync(ctx)
		if err != nil {
			return 0, err
		}
		if _, err := stream.Write([]byte("GET " + path + "\r\n")); err != nil {
			return 0, err
		}
		stream.Close()
		group.Go(func() error {
			n, err := io.Copy(io.Discard, stream)
			counts[i] = n
			return err
		})
	}
	if opt.rebind {
		if err := move(ctx, conn); err != nil {
			return 0, err
		}
	}
	if err := group.Wait(); err != nil {
		return 0, err
	}
	state := conn.ConnectionState()
	if early && !state.Used0RTT {
		return 0, errors.New("0-RTT was not accepted")
	}
	if opt.resume && !state.TLS.DidResume {
		return 0, errors.New("the session was not resumed")
	}
	// A ticket follows the handshake.
	time.Sleep(100 * time.Millisecond)
	var total int64
	for _, n := range counts {
		total += n
	}
	return total, nil
}

// move goes on from another port.
func move(ctx context.Context, conn *quic.Conn) error {
	socket, err := listenUDP(0)
	if err != nil {
		return err
	}
	path, err := conn.AddPath(&quic.Transport{Conn: socket})
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return fmt.Errorf("the new path does not answer: %w", err)
	}
	return path.Switch()
}
