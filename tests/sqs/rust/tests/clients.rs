//! `aws-sdk-sqs`, unchanged but for its endpoint. It checks the digests of what it sends and receives itself.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::retry::RetryConfig;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::error::ProvideErrorMetadata;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry};
use aws_sdk_sqs::types::{MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName};
use tempfile::TempDir;

/// Longer than anything takes here.
const LIMIT: Duration = Duration::from_secs(60);

/// The real binary, ended with the test.
struct Server {
    process: Child,
    url: String,
    _data: TempDir,
}

impl Server {
    fn start() -> Self {
        let binary = std::env::var("RECADO_BIN")
            .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../../target/debug/recado").to_owned());
        let data = tempfile::tempdir().unwrap();
        let mut process = Command::new(binary)
            .args(["serve", "--listen", "127.0.0.1:0", "--sqs-60s-rules", "off", "--data"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary: build it with `cargo build -p recado-cli`, or name it in RECADO_BIN");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("listening on ").expect(&line).to_owned();
        Self { process, url, _data: data }
    }

    fn client(&self) -> Client {
        let config = aws_sdk_sqs::Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .endpoint_url(&self.url)
            .http_client(aws_smithy_http_client::Builder::new().build_http())
            .region(Region::new("us-east-1"))
            .credentials_provider(Credentials::new("test", "test", None, None, "test"))
            .retry_config(RetryConfig::disabled())
            .build();
        Client::from_conf(config)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn queue(client: &Client, name: &str, attributes: &[(QueueAttributeName, &str)]) -> String {
    let mut call = client.create_queue().queue_name(name);
    for (name, value) in attributes {
        call = call.attributes(name.clone(), *value);
    }
    call.send().await.unwrap().queue_url.unwrap()
}

#[tokio::test]
async fn the_life_of_a_message() {
    tokio::time::timeout(LIMIT, async {
        let server = Server::start();
        let client = server.client();
        let url = queue(&client, "rust", &[]).await;
        let body = "caf\u{e9} & <tea>\r\n\u{1F600}";
        let binary = MessageAttributeValue::builder().data_type("Binary").binary_value(Blob::new([0, 255, 16]));
        let sent = client
            .send_message()
            .queue_url(&url)
            .message_body(body)
            .message_attributes("raw", binary.build().unwrap())
            .send()
            .await
            .unwrap();
        let receive = || {
            client
                .receive_message()
                .queue_url(&url)
                .message_attribute_names("All")
                .message_system_attribute_names(MessageSystemAttributeName::All)
        };
        let received = receive().wait_time_seconds(20).send().await.unwrap();
        let [message] = received.messages() else { panic!("one message, not {received:?}") };
        assert_eq!((message.message_id(), message.body()), (sent.message_id(), Some(body)));
        assert_eq!(message.md5_of_message_attributes(), sent.md5_of_message_attributes());
        let handle = message.receipt_handle().unwrap();
        let change = client.change_message_visibility().queue_url(&url).receipt_handle(handle);
        change.visibility_timeout(60).send().await.unwrap();
        client.delete_message().queue_url(&url).receipt_handle(handle).send().await.unwrap();
        assert!(receive().send().await.unwrap().messages.is_none());
        client.delete_queue().queue_url(&url).send().await.unwrap();
        let error = client.get_queue_url().queue_name("rust").send().await.unwrap_err().into_service_error();
        assert!(error.is_queue_does_not_exist(), "{error:?}");
        assert_eq!(error.message(), Some("The specified queue does not exist."));
    })
    .await
    .expect("the life of a message ends");
}

#[tokio::test]
async fn batches_and_fifo_order() {
    tokio::time::timeout(LIMIT, async {
        let server = Server::start();
        let client = server.client();
        let fifo = [(QueueAttributeName::FifoQueue, "true"), (QueueAttributeName::ContentBasedDeduplication, "true")];
        let url = queue(&client, "rust.fifo", &fifo).await;
        let mut send = client.send_message_batch().queue_url(&url);
        for n in 0..10 {
            let entry = SendMessageBatchRequestEntry::builder().id(n.to_string()).message_body(format!("m{n}"));
            send = send.entries(entry.message_group_id("g").build().unwrap());
        }
        assert_eq!(send.send().await.unwrap().successful().len(), 10);
        let received = client.receive_message().queue_url(&url).max_number_of_messages(10).send().await.unwrap();
        let bodies: Vec<_> = received.messages().iter().filter_map(|message| message.body()).collect();
        assert_eq!(bodies, ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m9"]);
        let mut delete = client.delete_message_batch().queue_url(&url);
        for (n, message) in received.messages().iter().enumerate() {
            let entry = DeleteMessageBatchRequestEntry::builder().id(n.to_string());
            delete = delete.entries(entry.receipt_handle(message.receipt_handle().unwrap()).build().unwrap());
        }
        assert_eq!(delete.send().await.unwrap().successful().len(), 10);
    })
    .await
    .expect("the batches end");
}
