//! Accounts from environment variables: those of Azure's command line and libraries, and those of Azure
//! Functions.

use std::ffi::OsString;

use rowkey_wire::auth::Service;
use zeroize::Zeroizing;

use super::StorageAccountBuilder;
use super::connection_string::Parts;
use crate::credential::Credential;
use crate::error::{Error, Result};

/// Reads the variables that describe an account. `variables` is the whole environment.
pub(super) fn read(
    mut builder: StorageAccountBuilder,
    variables: &[(OsString, OsString)],
) -> Result<StorageAccountBuilder> {
    let variables = Variables(variables);
    let account = variables.agreed(&ACCOUNT)?;
    let key = variables.agreed(&KEY)?;
    let sas = variables.first(&[SAS_TOKEN])?;
    if let Some((_, text)) = variables.first(&[CONNECTION_STRING])? {
        let parts = Parts::parse(&text)?;
        let name = parts.name.as_deref().or_else(|| parts.given.account()).unwrap_or_default();
        if let Some((variable, _)) = account.filter(|(_, other)| **other != name) {
            let what = format!("{CONNECTION_STRING} and {variable} name different accounts");
            return Err(Error::invalid(what).advise("unset one of them"));
        }
        builder = builder.connection_string(&text)?;
        return match secret(name, key, sas)? {
            None => Ok(builder),
            Some((_, _, credential)) if parts.credential.is_none() => {
                Ok(builder.credential(credential))
            }
            Some((_, value, _)) if text.contains(value.trim_start_matches('?')) => Ok(builder),
            Some((variable, ..)) => {
                let what = format!("{variable} is not the secret in {CONNECTION_STRING}");
                Err(Error::invalid(what).advise("unset one of them"))
            }
        };
    }
    if let Some((_, name)) = account {
        builder = builder.name(&*name);
        return Ok(match secret(&name, key, sas)? {
            Some((_, _, credential)) => builder.credential(credential),
            None => builder,
        });
    }
    if let Some((variable, _)) = key.or(sas) {
        let what = format!("{variable} is set without AZURE_STORAGE_ACCOUNT");
        return Err(Error::invalid(what).advise("set both, or unset it"));
    }
    if let Some((_, text)) = variables.first(&[FUNCTIONS])? {
        if let Some((part, _)) = variables.first(&FUNCTIONS_PARTS)? {
            let what = format!("both {FUNCTIONS} and {part} are set");
            return Err(Error::invalid(what).advise("unset one of them"));
        }
        return builder.connection_string(&text);
    }
    let [name, table, queue, blob] = FUNCTIONS_PARTS;
    let mut is_described = false;
    if let Some((_, name)) = variables.first(&[name])? {
        (builder, is_described) = (builder.name(&*name), true);
    }
    let endpoints: [(&str, SetEndpoint); 3] = [
        (table, |builder, url| builder.endpoint(Service::Table, url)),
        (queue, |builder, url| builder.endpoint(Service::Queue, url)),
        (blob, |builder, url| builder.endpoint(Service::Blob, url)),
    ];
    for (variable, set) in endpoints {
        if let Some((_, url)) = variables.first(&[variable])? {
            let at = |error: Error| error.during(format!("the variable {variable}"));
            (builder, is_described) = (set(builder, &url).map_err(at)?, true);
        }
    }
    if is_described {
        return Ok(builder);
    }
    let what = "no environment variable describes a storage account";
    Err(Error::invalid(what).advise(format!(
        "set {CONNECTION_STRING}; or AZURE_STORAGE_ACCOUNT with AZURE_STORAGE_KEY or {SAS_TOKEN}"
    )))
}

/// The key or the signature, with the name of its variable and its text.
fn secret(
    account: &str,
    key: Option<Variable>,
    sas: Option<Variable>,
) -> Result<Option<(&'static str, Zeroizing<String>, Credential)>> {
    let (name, text, credential) = match (key, sas) {
        (Some((key, _)), Some(_)) => {
            let what = format!("both {key} and {SAS_TOKEN} are set");
            return Err(Error::invalid(what).advise("unset one of them"));
        }
        (Some((name, key)), None) => {
            let credential = Credential::shared_key(account, &key)?;
            (name, key, credential)
        }
        (None, Some((name, sas))) => {
            let credential = Credential::sas(&sas)?;
            (name, sas, credential)
        }
        (None, None) => return Ok(None),
    };
    Ok(Some((name, text, credential)))
}

/// A variable that is set: its name and its value.
type Variable = (&'static str, Zeroizing<String>);

/// A setter for an endpoint.
type SetEndpoint = fn(StorageAccountBuilder, &str) -> Result<StorageAccountBuilder>;

const CONNECTION_STRING: &str = "AZURE_STORAGE_CONNECTION_STRING";
/// The name that `az` uses, and the name that other libraries use.
const ACCOUNT: [&str; 2] = ["AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"];
const KEY: [&str; 2] = ["AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"];
const SAS_TOKEN: &str = "AZURE_STORAGE_SAS_TOKEN";
const FUNCTIONS: &str = "AzureWebJobsStorage";
/// The variables of Azure Functions if a managed identity authorizes requests.
const FUNCTIONS_PARTS: [&str; 4] = [
    "AzureWebJobsStorage__accountName",
    "AzureWebJobsStorage__tableServiceUri",
    "AzureWebJobsStorage__queueServiceUri",
    "AzureWebJobsStorage__blobServiceUri",
];

struct Variables<'a>(&'a [(OsString, OsString)]);

impl Variables<'_> {
    /// The first of these variables that is set and not empty, with its name. Names match in any case, as on
    /// Windows and in Functions.
    fn first(&self, names: &[&'static str]) -> Result<Option<Variable>> {
        for name in names {
            let exact = self.0.iter().find(|(known, _)| known == name);
            let similar = |(known, _): &&(OsString, OsString)| known.eq_ignore_ascii_case(name);
            let found = exact.or_else(|| self.0.iter().find(similar));
            let Some((_, value)) = found else { continue };
            // The text of a value that is not Unicode is not shown.
            let Some(value) = value.to_str() else {
                return Err(Error::invalid(format!("{name} is not Unicode")));
            };
            if !value.trim().is_empty() {
                return Ok(Some((name, Zeroizing::new(value.trim().to_owned()))));
            }
        }
        Ok(None)
    }

    /// The same for variables that mean the same: if several are set, they must be equal.
    fn agreed(&self, names: &[&'static str; 2]) -> Result<Option<Variable>> {
        let [one, other] = names;
        if let (Some((_, a)), Some((_, b))) = (self.first(&[one])?, self.first(&[other])?)
            && a != b
        {
            let what = format!("{one} and {other} are both set, and differ");
            return Err(Error::invalid(what).advise("unset one of them"));
        }
        self.first(names)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::StorageAccount;
    use crate::credential::Authority;
    use rowkey_wire::auth::Service;

    /// Base64 of `account-key`.
    const KEY_TEXT: &str = "YWNjb3VudC1rZXk=";

    fn account(variables: &[(&str, &str)]) -> Result<StorageAccount> {
        let variables: Vec<_> =
            variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
        read(StorageAccount::builder(), &variables)?.build()
    }

    fn base(account: &StorageAccount, service: Service) -> &str {
        account.pipeline().endpoints().base(service)
    }

    #[test]
    fn variables_of_the_azure_cli_and_of_functions_are_read() -> Result<()> {
        let text = format!("AccountName=contoso;AccountKey={KEY_TEXT}");
        for variables in [
            &[("AZURE_STORAGE_CONNECTION_STRING", &*text)][..],
            &[("AzureWebJobsStorage", &text)],
            &[("AZUREWEBJOBSSTORAGE", &text), ("AZURE_STORAGE_ACCOUNT", " ")],
            &[("AZURE_STORAGE_ACCOUNT", "contoso"), ("AZURE_STORAGE_KEY", KEY_TEXT)],
            &[("AZURE_STORAGE_ACCOUNT_NAME", "contoso"), ("AZURE_STORAGE_ACCOUNT_KEY", KEY_TEXT)],
            &[("AZURE_STORAGE_ACCOUNT", "contoso"), ("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=x")],
        ] {
            let account = account(variables)?;
            assert_eq!(account.name(), "contoso", "{variables:?}");
            let table = base(&account, Service::Table);
            assert_eq!(table, "https://contoso.table.core.windows.net", "{variables:?}");
            let has_sas = variables.iter().any(|(name, _)| name.contains("SAS"));
            let authority = account.pipeline().credential().settled();
            assert_eq!(matches!(authority, Authority::Sas(_)), has_sas);
        }
        Ok(())
    }

    #[test]
    fn an_identity_based_account_takes_a_credential_from_the_program() -> Result<()> {
        for variables in [
            &[("AZURE_STORAGE_ACCOUNT", "contoso")][..],
            &[("AzureWebJobsStorage__accountname", "contoso")],
            &[("AzureWebJobsStorage__tableServiceUri", "https://contoso.table.core.windows.net/")],
        ] {
            let error = account(variables).unwrap_err();
            assert!(error.to_string().contains("the account has no credential"), "{error}");
            let variables: Vec<_> =
                variables.iter().map(|(name, value)| (name.into(), value.into())).collect();
            let builder = StorageAccount::builder().credential(Credential::anonymous());
            let account = read(builder, &variables)?.build()?;
            assert_eq!(base(&account, Service::Queue), "https://contoso.queue.core.windows.net");
        }
        Ok(())
    }

    #[test]
    fn variables_beside_each_other_agree_or_are_refused() -> Result<()> {
        let text = format!("AccountName=contoso;AccountKey={KEY_TEXT}");
        let text = ("AZURE_STORAGE_CONNECTION_STRING", &*text);
        let bare = ("AZURE_STORAGE_CONNECTION_STRING", "AccountName=contoso");
        let name = ("AZURE_STORAGE_ACCOUNT", "contoso");
        let key = ("AZURE_STORAGE_KEY", KEY_TEXT);
        let sas = ("AZURE_STORAGE_SAS_TOKEN", "?sv=1&sig=c2VjcmV0");
        for variables in [
            &[text, name, key, ("AZURE_STORAGE_ACCOUNT_KEY", KEY_TEXT)][..],
            &[name, ("AZURE_STORAGE_ACCOUNT_NAME", "contoso"), key],
            &[bare, key],
            &[bare, name, sas],
            // Functions sets its variables for itself.
            &[text, ("AzureWebJobsStorage", "UseDevelopmentStorage=true")],
        ] {
            assert_eq!(account(variables)?.name(), "contoso", "{variables:?}");
        }
        let functions = ("AzureWebJobsStorage", "UseDevelopmentStorage=true");
        for (variables, named) in [
            (
                &[text, ("AZURE_STORAGE_ACCOUNT", "other")][..],
                "AZURE_STORAGE_CONNECTION_STRING and AZURE_STORAGE_ACCOUNT name different accounts",
            ),
            (
                &[text, ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")],
                "AZURE_STORAGE_ACCOUNT_KEY is not the secret in AZURE_STORAGE_CONNECTION_STRING",
            ),
            (
                &[text, sas],
                "AZURE_STORAGE_SAS_TOKEN is not the secret in AZURE_STORAGE_CONNECTION_STRING",
            ),
            (
                &[name, ("AZURE_STORAGE_ACCOUNT_NAME", "other"), key],
                "AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_ACCOUNT_NAME are both set, and differ",
            ),
            (
                &[name, key, ("AZURE_STORAGE_ACCOUNT_KEY", "c2VjcmV0")],
                "AZURE_STORAGE_KEY and AZURE_STORAGE_ACCOUNT_KEY are both set, and differ",
            ),
            (&[key, functions], "AZURE_STORAGE_KEY is set without AZURE_STORAGE_ACCOUNT"),
            (&[sas], "AZURE_STORAGE_SAS_TOKEN is set without AZURE_STORAGE_ACCOUNT"),
            (
                &[functions, ("AzureWebJobsStorage__accountName", "contoso")],
                "both AzureWebJobsStorage and AzureWebJobsStorage__accountName are set",
            ),
        ] {
            let error = account(variables).unwrap_err();
            assert!(error.to_string().contains(named), "{variables:?}: {error}");
            assert!(!format!("{error} {error:?}").contains("c2VjcmV0"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn errors_name_the_variable_and_not_its_value() {
        let secret = "c2VjcmV0";
        for (variables, named) in [
            (&[][..], "no environment variable describes a storage account"),
            (&[("AZURE_STORAGE_KEY", secret)], "AZURE_STORAGE_KEY is set without"),
            (
                &[
                    ("AZURE_STORAGE_ACCOUNT", "a"),
                    ("AZURE_STORAGE_KEY", secret),
                    ("AZURE_STORAGE_SAS_TOKEN", secret),
                ],
                "both AZURE_STORAGE_KEY and AZURE_STORAGE_SAS_TOKEN are set",
            ),
            (
                &[("AzureWebJobsStorage__blobServiceUri", secret)],
                "the variable AzureWebJobsStorage__blobServiceUri",
            ),
        ] {
            let error = account(variables).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
            assert!(!format!("{error} {error:?}").contains(secret), "{error}");
        }
        #[cfg(unix)]
        {
            use std::os::unix::ffi::OsStringExt as _;
            let value = OsString::from_vec(b"\xFFsecret".to_vec());
            let variables =
                [("AZURE_STORAGE_KEY".into(), value), ("AZURE_STORAGE_ACCOUNT".into(), "a".into())];
            let error = read(StorageAccount::builder(), &variables).unwrap_err();
            assert_eq!(error.to_string(), "AZURE_STORAGE_KEY is not Unicode");
        }
    }
}
